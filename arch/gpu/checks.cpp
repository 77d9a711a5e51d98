#include "arch/gpu/checks.hpp"

#include <array>
#include <cmath>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "arch/gpu/peaks.hpp"

namespace plumbline::descriptor {
namespace {

struct LinkRate {
  std::int64_t generation;
  Bandwidth one_way;
};

/// One link, one direction. NVLink 2 to 4: 25 GB/s, 5: 50 GB/s (NVIDIA NVLink product pages); 6: 100 GB/s (announced).
constexpr std::array<LinkRate, 5> kNvlink{{{2, 25.0 * units::GB_per_s},
                                           {3, 25.0 * units::GB_per_s},
                                           {4, 25.0 * units::GB_per_s},
                                           {5, 50.0 * units::GB_per_s},
                                           {6, 100.0 * units::GB_per_s}}};
/// x16, one direction, after line coding (PCI-SIG base specifications; 6: 256 B flits).
constexpr std::array<LinkRate, 4> kPcie{{{3, 15.754 * units::GB_per_s},
                                         {4, 31.508 * units::GB_per_s},
                                         {5, 63.015 * units::GB_per_s},
                                         {6, 121.0 * units::GB_per_s}}};

template <std::size_t N>
Bandwidth rate_of(const std::array<LinkRate, N>& rates, std::int64_t generation) {
  for (const LinkRate& rate : rates) {
    if (rate.generation == generation) return rate.one_way;
  }
  return Bandwidth();
}

[[noreturn]] void refuse(const std::string& place, const char* pointer, const std::string& message) {
  throw BadInput(place + ": " + pointer + ": " + message);
}

void check_links(const GpuDescriptor& d, const std::string& place) {
  const GpuLinks& links = d.gpu.links;
  const Bandwidth by_generation = rate_of(kNvlink, d.nvlink_generation);
  if (d.nvlink_link_rate > Bandwidth() && is_about_twice(d.nvlink_link_rate / by_generation, 1.0)) {
    refuse(place, "/links/nvlink_link_rate",
           "two-way rate: expected one direction of one link, " + format(by_generation) + " for NVLink " +
               std::to_string(d.nvlink_generation) + ", found " + format(d.nvlink_link_rate));
  }
  const Bandwidth per_link = d.nvlink_link_rate > Bandwidth() ? d.nvlink_link_rate : by_generation;
  const Bandwidth all = per_link * static_cast<double>(links.nvlink_count);
  if (is_about_twice(links.nvlink_per_direction / units::B_per_s, all / units::B_per_s)) {
    refuse(place, "/links/nvlink_per_direction",
           "two-way rate: expected one direction, " + std::to_string(links.nvlink_count) + " links x " +
               format(per_link) + " = " + format(all) + ", found " + format(links.nvlink_per_direction) +
               " (a faster link? then set links.nvlink_count or links.nvlink_generation too)");
  }
  const Bandwidth pcie = rate_of(kPcie, d.pcie_generation);
  if (is_about_twice(links.pcie_per_direction / units::B_per_s, pcie / units::B_per_s)) {
    refuse(place, "/links/pcie_per_direction",
           "two-way rate: expected one direction, " + format(pcie) + " for PCIe " + std::to_string(d.pcie_generation) +
               ".0 x16, found " + format(links.pcie_per_direction) +
               " (a faster slot? then set links.pcie_generation too)");
  }
}

void check_l2(const Level2& l2, const std::string& place) {
  if (l2.far_latency_ratio < 1) {
    refuse(place, "/l2/far_latency_ratio",
           "expected at least 1, the near partition's latency, found " + format(l2.far_latency_ratio));
  }
  if (l2.reuse_fraction > 1) {
    refuse(place, "/l2/reuse_fraction", "expected a fraction of at most 1, found " + format(l2.reuse_fraction));
  }
}

void check_memory(const DeviceMemory& memory, const std::string& place) {
  if (memory.read_fraction > 1) {
    refuse(place, "/memory/read_fraction", "expected a fraction of at most 1, found " + format(memory.read_fraction));
  }
  if (memory.ecc_share > 0.25) {
    refuse(place, "/memory/ecc_share",
           "expected the share of the memory that holds check bits, 0 to 0.25, found " + format(memory.ecc_share));
  }
}

/// Clusters take whole SMs of one GPC: larger ones leave more SMs over, never fewer.
void check_clusters(const ClusterSlots& c, const std::string& place) {
  const bool any = c.sms > 0 || c.of_2 > 0 || c.of_4 > 0 || c.of_8 > 0;
  if (!any) return;
  if (c.sms == 0 || c.of_2 == 0 || c.of_4 == 0 || c.of_8 == 0) {
    refuse(place, "/clusters", "expected sms, of_2, of_4 and of_8 above zero together, or none of them");
  }
  const auto holds = [&](const char* pointer, std::int64_t used, std::int64_t most) {
    if (used <= most) return;
    refuse(place, pointer,
           "expected clusters of at most " + std::to_string(most) + " SMs in all, found " + std::to_string(used));
  };
  holds("/clusters/of_2", 2 * c.of_2, c.sms);
  holds("/clusters/of_4", 4 * c.of_4, 2 * c.of_2);
  holds("/clusters/of_8", 8 * c.of_8, 4 * c.of_4);
}

void check_sm_limits(const StreamingMultiprocessor& sm, const std::string& place) {
  if (sm.smem_per_block > sm.smem) {
    refuse(place, "/sm/smem_per_block",
           "expected at most the SM's " + format_binary(sm.smem) + ", found " + format_binary(sm.smem_per_block));
  }
  if (sm.smem_reserved_per_block > sm.smem) {
    refuse(place, "/sm/smem_reserved_per_block", "expected at most the SM's " + format_binary(sm.smem));
  }
  if (sm.smem > sm.l1_and_smem) {
    refuse(place, "/sm/smem",
           "expected at most l1_and_smem (" + format_binary(sm.l1_and_smem) + "), found " + format_binary(sm.smem));
  }
  if (sm.smem_granule < units::B || sm.smem < sm.smem_granule) {
    refuse(place, "/sm/smem_granule", "expected from 1 B to the SM's " + format_binary(sm.smem));
  }
  if (sm.threads_per_block > sm.threads) {
    refuse(place, "/sm/threads_per_block",
           "expected at most the SM's " + std::to_string(sm.threads) + " threads, found " +
               std::to_string(sm.threads_per_block));
  }
  if (sm.threads % sm.warp_size != 0) {
    refuse(place, "/sm/threads",
           "expected a multiple of the warp size " + std::to_string(sm.warp_size) + ", found " +
               std::to_string(sm.threads));
  }
}

std::string rate_path(DType type) { return "/sm/tensor_flop_per_clk/" + std::string(name(type)); }

/// Across families up to Blackwell: fp16 and bf16 run at one rate, and halving the element at most doubles the rate. A
/// chip that does otherwise has a datasheet that gives both types, each of which was held against its rate already.
void check_rate_structure(const Gpu& gpu, const std::string& place) {
  const auto& rate = gpu.sm.tensor_flop_per_clk;
  const auto& sheet = gpu.datasheet_tensor_peak;
  const double bf16 = rate[DType::bf16], fp16 = rate[DType::fp16], fp8 = rate[DType::fp8];
  for (const auto& [type, beside, number, reference] :
       {std::tuple(DType::bf16, DType::fp16, bf16, fp16), std::tuple(DType::fp16, DType::bf16, fp16, bf16),
        std::tuple(DType::fp8, DType::bf16, fp8, 2 * bf16),
        std::tuple(DType::bf16, DType::tf32, bf16, 2 * rate[DType::tf32])}) {
    const bool both_printed = sheet[type] > FlopRate() && sheet[beside] > FlopRate();
    if (!both_printed && is_about_twice(number, reference)) {
      refuse(place, rate_path(type).c_str(),
             "looks like a sparse (2:4) rate: expected about " + format(reference) +
                 " FLOP a clock and SM beside the other "
                 "types, found " +
                 format(number));
    }
  }
}

}  // namespace

bool is_about_twice(double number, double reference) {
  constexpr double kTolerance = 0.05;
  return reference > 0 && std::isfinite(reference) && std::abs(number / reference - 2.0) <= 2.0 * kTolerance;
}

Hertz datasheet_clock(const Gpu& gpu, DType type) {
  const bool at_boost = type == DType::fp64 || gpu.datasheet_tensor_clock == Hertz();
  return at_boost ? gpu.boost_clock : gpu.datasheet_tensor_clock;
}

void check_physics(const GpuDescriptor& d, const std::string& place) {
  const Gpu& gpu = d.gpu;
  if (gpu.base_clock > gpu.boost_clock) {
    refuse(place, "/base_clock",
           "expected at most the boost clock " + format(gpu.boost_clock) + ", found " + format(gpu.base_clock));
  }
  if (gpu.tdp <= gpu.idle_power) {
    refuse(
        place, "/tdp",
        "TDP at or below idle: expected more than idle_power " + format(gpu.idle_power) + ", found " + format(gpu.tdp));
  }
  if (d.idle_power_fraction >= 1) {
    refuse(place, "/idle_power_fraction", "expected a fraction below 1, found " + format(d.idle_power_fraction));
  }
  check_sm_limits(gpu.sm, place);
  check_l2(gpu.l2, place);
  check_memory(gpu.memory, place);
  check_clusters(gpu.clusters, place);
  check_links(d, place);
}

void check_dense_rates(const Gpu& gpu, const std::string& place) {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    const FlopRate sheet = gpu.datasheet_tensor_peak[type];
    if (sheet == FlopRate()) continue;
    const FlopRate derived = tensor_peak(gpu, type, datasheet_clock(gpu, type));
    const std::string pointer = "/datasheet/tensor_peak/" + std::string(name(type));
    if (derived == FlopRate()) refuse(place, pointer.c_str(), "expected a rate at " + rate_path(type) + " beside it");
    const double ratio = sheet / derived;
    constexpr double kLargestMismatch = 0.1;  // beyond it one of rate, clock and count is wrong
    if (std::abs(ratio - 1.0) <= kLargestMismatch) continue;
    const std::string found = "expected about " + format(derived) + " (SMs x rate x clock), found " + format(sheet);
    if (is_about_twice(ratio, 1.0)) refuse(place, pointer.c_str(), "looks like a sparse (2:4) rate: " + found);
    if (is_about_twice(1.0 / ratio, 1.0)) {
      refuse(place, rate_path(type).c_str(),
             "looks like a sparse (2:4) rate: it gives " + format(derived) + " where the datasheet has " +
                 format(sheet) + " dense");
    }
    refuse(place, pointer.c_str(), found);
  }
  check_rate_structure(gpu, place);
}

}  // namespace plumbline::descriptor
