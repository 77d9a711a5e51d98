#include "model/report/gpu_page.hpp"

#include <array>
#include <map>
#include <set>
#include <utility>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "arch/gpu/peaks.hpp"

namespace plumbline {
namespace {

/// Typical kernels: rowwise and reductions (128, 256), pipelined GEMM and attention (384), the largest block (1024).
constexpr std::array<std::int64_t, 4> kThreads{128, 256, 384, 1024};
constexpr std::array<std::int64_t, 3> kRegisters{32, 64, 168};

std::vector<OccupancyRow> typical_occupancy(const StreamingMultiprocessor& sm) {
  std::vector<OccupancyRow> rows;
  for (const std::int64_t threads : kThreads) {
    for (const std::int64_t registers : kRegisters) {
      OccupancyRow row{threads, registers, {}};
      for (const double kib : kPageSmemKiB)
        row.by_smem.push_back(occupancy(sm, {threads, registers, kib * units::KiB}));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::optional<Calibration> calibration_of(const Gpu& gpu) {
  try {
    return load_calibration(gpu.name, gpu.calibration);
  } catch (const BadInput&) {
    return std::nullopt;  // the page then says that its numbers are the datasheet's
  }
}

std::string rate_or_dash(FlopRate rate) { return rate > 0.0 * units::FLOP_per_s ? format(rate) : "-"; }

std::string identity(const GpuPage& page, const TextStyle& style) {
  const Gpu& g = page.gpu;
  std::string chip = g.vendor + " " + g.architecture + " (" + g.compute_capability + "), " +
                     std::to_string(g.sm_count) + " SMs, boost " + format(g.boost_clock);
  if (g.base_clock > 0.0 * units::Hz) chip += ", base " + format(g.base_clock);
  if (g.datasheet_tensor_clock > 0.0 * units::Hz && g.datasheet_tensor_clock != g.boost_clock) {
    chip += ", datasheet tensor peaks at " + format(g.datasheet_tensor_clock);
  }
  std::string out = style.bold(g.title + " (" + g.name + ")") + "\n" + labelled("chip", chip);
  std::string feeding = std::string(name(g.sm.matrix_unit)) + ", copies into shared memory by " +
                        std::string(name(g.sm.async_copy)) + ", generation " + g.generation;
  out += labelled("tensor units", feeding);
  if (g.clusters.sms > 0) {
    const auto share = [&](std::int64_t ctas) { return format(100 * g.clusters.share(ctas)) + " %"; };
    out += labelled("clusters", "of 2, 4, 8 CTAs use " + share(2) + ", " + share(4) + ", " + share(8) + " of the SMs");
  }
  std::string power = format(g.tdp) + " board";
  if (g.idle_power > 0.0 * units::W) power += ", " + format(g.idle_power) + " idle";
  power += "; " + g.process.node;
  if (g.process.energy_ratio != 1) power += ", " + format(g.process.energy_ratio) + " x the energy of TSMC 4N's logic";
  out += labelled("power", power);
  std::string links;
  if (g.links.nvlink_per_direction > 0.0 * units::B_per_s) {
    links = std::to_string(g.links.nvlink_count) + (g.vendor == "AMD" ? " fabric" : " NVLink") + " links, " +
            format(g.links.nvlink_per_direction) + " each way in all";
  }
  if (g.links.pcie_per_direction > 0.0 * units::B_per_s) {
    links += (links.empty() ? "" : "; ") + ("PCIe " + format(g.links.pcie_per_direction)) + " each way";
  }
  return out + labelled("links", links.empty() ? "none" : links) + "\n";
}

}  // namespace

Columns compute_columns(const GpuPage& page) {
  const Gpu& g = page.gpu;
  using enum Columns::Align;
  const bool two_clocks = g.datasheet_tensor_clock > 0.0 * units::Hz;
  Columns table({{"dense compute"},
                 {"FLOP/clk/SM", right},
                 {"at boost", right},
                 {two_clocks ? "at " + format(g.datasheet_tensor_clock) : "", right},
                 {"datasheet", right},
                 {"ridge, boost", right}});
  for (const DType type : page.tensor_types) {
    table.add({"tensor " + std::string(name(type)), format(g.sm.tensor_flop_per_clk[type]),
               format(tensor_peak(g, type, g.boost_clock)),
               two_clocks ? format(tensor_peak(g, type, g.datasheet_tensor_clock)) : "",
               rate_or_dash(g.datasheet_tensor_peak[type]), format(ridge_point(g, type, g.boost_clock))});
  }
  const FlopRate fp32 = fp32_peak(g, g.boost_clock), fp64 = fp64_peak(g, g.boost_clock);
  table.add({"fp32 lanes", format(g.sm.fp32_flop_per_clk), format(fp32), "", "", format(fp32 / g.memory.bandwidth)});
  if (fp64 > 0.0 * units::FLOP_per_s) {
    table.add({"fp64 lanes", format(g.sm.fp64_flop_per_clk), format(fp64), "", "", format(fp64 / g.memory.bandwidth)});
  }
  const double sfu = sfu_peak(g, g.boost_clock).in(units::GHz);
  table.add({"exp2, rsqrt, ...", format(g.sm.sfu_op_per_clk), format(sfu / 1e3) + " Top/s"});
  return table;
}

Columns memory_columns(const GpuPage& page) {
  const Gpu& g = page.gpu;
  using enum Columns::Align;
  Columns table({{"memory"}, {"size", right}, {"bandwidth", right}, {"latency", right}, {"in flight to fill", right}});
  table.add({"shared memory", format_binary(g.sm.smem) + "/SM", format(smem_peak(g, g.boost_clock)), "", ""});
  // Little's law: bytes in flight = bandwidth x latency (docs/sources.md: timing).
  const Bandwidth l2 = l2_peak(g, g.boost_clock);
  table.add({"L2", format_binary(g.l2.size), format(l2), format(g.l2.latency), format(l2 * g.l2.latency)});
  if (g.l2.far_latency_ratio > 1) {
    table.add({"L2, far partition", "", "", format(g.l2.far_latency_ratio * g.l2.latency)});
  }
  if (g.l3_size > 0.0 * units::B) table.add({"memory-side cache", format_binary(g.l3_size)});
  table.add({g.memory_type, format_binary(g.memory.capacity), format(g.memory.bandwidth), format(g.memory.latency),
             format(g.memory.bandwidth * g.memory.latency)});
  if (g.memory.ecc_share > 0) {
    table.add({"  without check bits", format_binary(g.memory.usable_capacity()), format(g.memory.data_bandwidth())});
  }
  return table;
}

Columns occupancy_columns(const GpuPage& page) {
  using enum Columns::Align;
  std::vector<Columns::Column> columns{{"threads", right}, {"registers", right}};
  for (const double kib : kPageSmemKiB) columns.push_back({format(kib) + " KiB smem", right});
  Columns table(std::move(columns));
  for (const OccupancyRow& row : page.occupancy) {
    std::vector<std::string> cells{std::to_string(row.threads), std::to_string(row.registers)};
    for (const Occupancy& o : row.by_smem) {
      cells.push_back(o.blocks_per_sm == 0 ? "no fit"
                                           : std::to_string(o.blocks_per_sm) + " " + std::string(o.limited_by));
    }
    table.add(std::move(cells));
  }
  return table;
}

namespace {

std::string occupancy_table(const GpuPage& page, const TextStyle& style) {
  const StreamingMultiprocessor& sm = page.gpu.sm;
  std::string out =
      labelled("an SM holds", std::to_string(sm.threads) + " threads, " +
                                  std::to_string(sm.threads / std::max<std::int64_t>(1, sm.warp_size)) + " warps, " +
                                  std::to_string(sm.blocks) + " blocks, " + std::to_string(sm.registers) +
                                  " registers, " + format_binary(sm.smem) + " shared memory");
  out += labelled("a block at most", std::to_string(sm.threads_per_block) + " threads, " +
                                         std::to_string(sm.registers_per_thread) + " registers a thread, " +
                                         format_binary(sm.smem_per_block) + " shared memory (" +
                                         format_binary(sm.smem_reserved_per_block) + " more is reserved)");
  return out + "\n  " + style.bold("blocks per SM, and what limits them") + "\n" +
         occupancy_columns(page).text(2, style) + "\n";
}

}  // namespace

std::string calibration_text(const GpuPage& page) {
  if (!page.calibration) return "none: datasheet numbers only";
  const Calibration& c = *page.calibration;
  return std::to_string(c.machine.size()) + " machine coefficients and " + std::to_string(c.families.size()) +
         " kernel families" + (c.inherited ? ", inherited from " : ", of ") + c.gpu;
}

std::vector<std::string> source_lines(const GpuPage& page) {
  constexpr std::string_view kInherited = "inherited from family ";  // as arch marks a family's numbers
  std::set<std::string> own, family;
  for (const auto& [path, source] : page.gpu.sources) {
    (source.starts_with(kInherited) ? family : own).insert(source);
  }
  std::vector<std::string> distinct(own.begin(), own.end());
  if (!family.empty()) distinct.push_back(std::to_string(family.size()) + " more, of its family's numbers");
  return distinct;
}

GpuPage gpu_page(const Gpu& gpu) {
  GpuPage page{gpu, calibration_of(gpu), {}, typical_occupancy(gpu.sm)};
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    if (gpu.sm.tensor_flop_per_clk[static_cast<DType>(i)] > 0) page.tensor_types.push_back(static_cast<DType>(i));
  }
  return page;
}

std::string gpu_page_table(const GpuPage& page, const TextStyle& style) {
  return identity(page, style) + compute_columns(page).text(2, style) + "\n" + memory_columns(page).text(2, style) +
         "\n" + occupancy_table(page, style) + labelled("calibration", calibration_text(page)) +
         bullets("sources (per number: --format json)", source_lines(page), style) +
         bullets("assumptions", page.gpu.assumptions, style);
}

}  // namespace plumbline
