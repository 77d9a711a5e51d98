// What the planners of our products' two engines share.
#pragma once

#include <algorithm>

#include "model/stacks/common/gemm_search.hpp"
#include "model/stacks/own/own_kernels.hpp"
#include "ops/plan/kernel_menu.hpp"

namespace plumbline::own_gemm {

using gemm::Context;
using gemm::Search;
using gemm::Tile;
using gemm::TileCosts;
using gemm::TileLayout;
using gemm::Traffic;
using gemm::WorkSplit;

/// FP32 operations a clock.
inline double sm_lanes(const Context& c) { return c.rates.gpu.sm.fp32_flop_per_clk; }

/// What both engines' tiles have in common. Accumulators pass through shared memory on their way out: the CTA's tensor
/// work waits for that.
inline TileCosts own_costs(const Context& c, const GemmVariant& v, bool swapped) {
  const Tile tile{static_cast<std::int16_t>(v.rows), static_cast<std::int16_t>(v.cols)};
  TileCosts e = gemm::tile_costs(c, tile, static_cast<double>(v.step_bytes) / c.task.input_bytes, swapped);
  e.cluster = static_cast<double>(v.cluster);
  e.resident = static_cast<double>(v.ctas_per_sm);
  e.stages = static_cast<double>(v.stages);
  // a step cannot be shorter than its own chain: barrier, instructions, release
  e.step_latency = std::max(c.rates.dram_latency / e.stages, c.family.step);
  e.serial_clk = e.once_clk;
  e.once_clk = 0;
  return e;
}

/// Bytes of a step that come in through the SM's port, multicast too; or, where rows are asked for in pieces, the lines
/// that they touch. Neighbours on the row side share the columns, whole clusters of them.
inline void ask_l2(TileLayout& layout, const Context& c, bool in_pieces) {
  const TileCosts& e = *layout.costs;
  layout.fill_clusters(c);
  const double asked = layout.l2_bytes - e.col_side() * (1 - 1 / e.cluster);
  layout.l2_bytes = std::max(layout.l2_bytes, asked * (in_pieces ? c.starts.lines : 1));
}

/// Either engine's launch: work is walked in order, loads wait for the epilogue.
inline Demand own_demand(const Context& c, const TileLayout& layout, const WorkSplit& split, Traffic traffic,
                         double twice = 0) {
  Demand d = gemm::launch_demand(c, layout, split, traffic, twice);
  d.loads_stop = true;
  d.l2_distinct = c.task.batch * (c.a_bytes + c.w_bytes) * units::B;
  d.l2_written = c.task.batch * c.out_bytes * units::B;
  return d;
}

/// A cluster of ours lies along the row side.
inline GemmPlan own_plan(const TileLayout& layout, const WorkSplit& split, GemmEngine engine) {
  GemmPlan plan = gemm::plan_of(layout, split);
  (plan.swapped ? plan.cluster_n : plan.cluster_m) = static_cast<std::int64_t>(layout.costs->cluster);
  plan.engine = engine;
  return plan;
}

}  // namespace plumbline::own_gemm
