// The one list of the numbers in a GPU descriptor: reading, `--set`, sources and the unknown-key check all walk it.
// Internal to arch/gpu*.cpp.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/gpu/gpu.hpp"
#include "arch/json_reader.hpp"

namespace plumbline::descriptor {

/// `positive` and `zero_allowed` must be there; `optional` may be absent, which counts as 0.
enum class Need { positive, zero_allowed, optional };

/// A GPU and the numbers that only the descriptor needs: to derive others, or to check them.
struct GpuDescriptor {
  Gpu gpu;
  std::int64_t nvlink_generation = 0;  ///< 0: not NVLink
  Bandwidth nvlink_link_rate;          ///< one link, one direction, where no NVLink generation says it
  std::int64_t pcie_generation = 0;
  double l2_bytes_per_sm_clk = 0;  ///< gives l2.bandwidth where no measured one is on file
  double idle_power_fraction = 0;  ///< of the TDP; gives idle_power where no measured one is on file
  FlopRate tensor_bf16;            ///< shorthand: the dense bf16 peak at the boost clock scales all tensor rates
};

template <class Visit>
void visit_sm(StreamingMultiprocessor& sm, Visit&& visit) {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    visit("sm.tensor_flop_per_clk." + std::string(name(type)), sm.tensor_flop_per_clk[type], Need::optional);
  }
  visit("sm.fp32_flop_per_clk", sm.fp32_flop_per_clk, Need::positive);
  visit("sm.fp64_flop_per_clk", sm.fp64_flop_per_clk, Need::zero_allowed);
  visit("sm.sfu_op_per_clk", sm.sfu_op_per_clk, Need::positive);
  visit("sm.issue_per_clk", sm.issue_per_clk, Need::positive);
  visit("sm.smem_bytes_per_clk", sm.smem_bytes_per_clk, Need::positive);
  visit("sm.l2_bytes_per_clk", sm.l2_bytes_per_clk, Need::positive);
  visit("sm.smem", sm.smem, Need::positive);
  visit("sm.smem_per_block", sm.smem_per_block, Need::positive);
  visit("sm.smem_reserved_per_block", sm.smem_reserved_per_block, Need::zero_allowed);
  visit("sm.smem_granule", sm.smem_granule, Need::positive);
  visit("sm.l1_and_smem", sm.l1_and_smem, Need::positive);
  visit("sm.registers", sm.registers, Need::positive);
  visit("sm.registers_per_thread", sm.registers_per_thread, Need::positive);
  visit("sm.threads", sm.threads, Need::positive);
  visit("sm.threads_per_block", sm.threads_per_block, Need::positive);
  visit("sm.blocks", sm.blocks, Need::positive);
  visit("sm.warp_size", sm.warp_size, Need::positive);
  visit("sm.register_granule", sm.register_granule, Need::positive);
  visit("sm.warp_granule", sm.warp_granule, Need::positive);
}

/// Calls visit(dotted path, number, need) for every number of the descriptor.
template <class Visit>
void visit_numbers(GpuDescriptor& d, Visit&& visit) {
  Gpu& gpu = d.gpu;
  visit("sm_count", gpu.sm_count, Need::positive);
  visit("base_clock", gpu.base_clock, Need::optional);
  visit("boost_clock", gpu.boost_clock, Need::positive);
  visit("tensor_bf16", d.tensor_bf16, Need::optional);
  visit_sm(gpu.sm, visit);
  visit("l2.size", gpu.l2.size, Need::positive);
  visit("l2.bandwidth", gpu.l2.bandwidth, Need::positive);
  visit("l2.bytes_per_sm_clk", d.l2_bytes_per_sm_clk, Need::optional);
  visit("l2.latency", gpu.l2.latency, Need::positive);
  visit("l2.partitions", gpu.l2.partitions, Need::positive);
  visit("l2.far_latency_ratio", gpu.l2.far_latency_ratio, Need::positive);
  visit("l2.reuse_fraction", gpu.l2.reuse_fraction, Need::positive);
  visit("l3_size", gpu.l3_size, Need::optional);
  visit("memory.capacity", gpu.memory.capacity, Need::positive);
  visit("memory.bandwidth", gpu.memory.bandwidth, Need::positive);
  visit("memory.latency", gpu.memory.latency, Need::positive);
  visit("memory.ecc_share", gpu.memory.ecc_share, Need::optional);
  visit("memory.read_fraction", gpu.memory.read_fraction, Need::optional);
  visit("links.nvlink_generation", d.nvlink_generation, Need::optional);
  visit("links.nvlink_link_rate", d.nvlink_link_rate, Need::optional);
  visit("links.nvlink_count", gpu.links.nvlink_count, Need::zero_allowed);
  visit("links.nvlink_per_direction", gpu.links.nvlink_per_direction, Need::zero_allowed);
  visit("links.pcie_generation", d.pcie_generation, Need::optional);
  visit("links.pcie_per_direction", gpu.links.pcie_per_direction, Need::zero_allowed);
  visit("clusters.sms", gpu.clusters.sms, Need::optional);
  visit("clusters.of_2", gpu.clusters.of_2, Need::optional);
  visit("clusters.of_4", gpu.clusters.of_4, Need::optional);
  visit("clusters.of_8", gpu.clusters.of_8, Need::optional);
  visit("process.energy_ratio", gpu.process.energy_ratio, Need::positive);
  visit("tdp", gpu.tdp, Need::positive);
  visit("idle_power", gpu.idle_power, Need::zero_allowed);
  visit("idle_power_fraction", d.idle_power_fraction, Need::optional);
  visit("cap_within", gpu.cap_within, Need::optional);
  visit("datasheet.tensor_clock", gpu.datasheet_tensor_clock, Need::optional);
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    visit("datasheet.tensor_peak." + std::string(name(type)), gpu.datasheet_tensor_peak[type], Need::optional);
  }
}

/// Dotted paths of all numbers, in the order of `visit_numbers`.
const std::vector<std::string>& number_paths();

std::vector<GpuParameter> parameters();

/// Dotted paths of the facts that are words: each must be there, and has a source as a number has.
const std::vector<std::string>& word_paths();

/// "memory.bandwidth" -> "/memory/bandwidth".
std::string pointer_of(std::string_view dotted_path);

/// The value at a dotted path, or nothing (also for null).
std::optional<JsonValue> find_path(const JsonValue& root, std::string_view dotted_path);

/// Reads and range-checks every number and text of a complete document; `overrides` only shape messages. Does not fill
/// title, sources and assumptions.
GpuDescriptor read_descriptor(const JsonValue& root, const std::vector<Override>& overrides);

/// Throws naming the first key that no descriptor has, with the nearest one.
void refuse_unknown_keys(const JsonValue& root);

/// Throws when `--set` names no number, with the nearest one.
void refuse_unknown_override(const Override& override_);

}  // namespace plumbline::descriptor
