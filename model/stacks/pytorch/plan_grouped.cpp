// PyTorch 2.11, aten/src/ATen/native/cuda/GroupMM.cu: two kernels of CUTLASS with pointers for each expert, a CTA an SM,
// clusters of two CTAs one above the other. Experts of at most 128 rows in the mean: tiles of 64 x 128, a step of 128 of
// K, two warpgroups that take turns with whole tiles; else 128 x 256, a step of 64, two warpgroups side by side.
#include "model/stacks/pytorch/plan_grouped.hpp"

#include <cmath>

#include "model/stacks/common/gemm_search.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/cublas/plan_gemm.hpp"

namespace plumbline {
namespace {

using gemm::Context;
using gemm::TileCosts;
using gemm::TileLayout;
using gemm::Traffic;
using gemm::WorkSplit;

constexpr double kCluster = 2, kStages = 4;

class GroupedMmPlanner {
 public:
  GroupedMmPlanner(const Context& context, bool small) : c(context), small_(small) {}

  TileCosts costs() const {
    TileCosts e = small_ ? gemm::tile_costs(c, {64, 128}, 128, false) : gemm::tile_costs(c, {128, 256}, 64, false);
    e.cluster = kCluster;
    e.persistent = true;
    e.smem_clk -= (1 - gemm::kFillShare) * e.stage_bytes / c.smem_port;
    e.stages = kStages;
    e.step_latency = c.family.step;
    // warpgroups that take turns with tiles leave one's epilogue behind the other's products
    e.serial_clk = small_ ? 0 : e.once_clk;
    return e;
  }

  /// Both CTAs of a pair run, whether the expert has rows for both or not: rows that it does not have are written as
  /// zeros. Each fetches half of the columns for both.
  void adapt(TileLayout& t) const {
    const TileCosts& e = *t.costs;
    t.fill_clusters(c);
    t.delivered = e.w * (1 - 1 / kCluster);
    t.l2_bytes = e.a + e.w - t.delivered;
    const double outside = t.tiles_m * e.tile_m - c.task.m, pairs = t.tiles_m / kCluster;
    const double boxes = e.tile_k * c.task.input_bytes / gemm::kStepBytes;
    t.edge_fill_clk += gemm::kOutsideRowClk * boxes * std::min(outside, e.tile_m) / pairs;
  }

  WorkSplit split(const TileLayout& t, double splits) const { return gemm::tiled(t, splits); }

  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    Demand d = gemm::launch_demand(c, t, split, traffic);
    d.l2_limit = L2Limit::ports;
    d.dealt_once = true;
    d.serial_latency = gemm::kColdTrips * c.rates.gpu.memory.latency;
    d.serial_latency_of = "to load code, tensor maps and what they describe";
    d.next_tile_wait = c.family.per_cta;
    return d;
  }

  GemmPlan plan(const TileLayout& t, const WorkSplit& split) const {
    GemmPlan plan = gemm::plan_of(t, split);
    plan.cluster_m = static_cast<std::int64_t>(kCluster);
    return plan;
  }

 private:
  const Context& c;
  bool small_;
};

}  // namespace

GroupedMm grouped_mm_task(const GroupedGemm& s, const Rates& rates) {
  constexpr std::int64_t kFewRows = 128;
  return {gemm_task(s, rates), s.tokens * s.topk / s.experts <= kFewRows || s.n <= kFewRows};
}

bool has_grouped_mm(const GemmTask& t, const Rates& m) {
  return m.path.multicast && gemm::whole_units(t) && t.math == DType::bf16 && t.dequant_per_weight == 0;
}

GemmChoice plan_grouped_mm(const GroupedMm& g, const Rates& rates, const FamilyScalars& family, GemmCache& cache) {
  const Context c(g.task, rates, family, family, rates.path, gemm::row_starts(g.task));
  const GroupedMmPlanner planner(c, g.small);
  const TileCosts costs = planner.costs();
  gemm::Search<GroupedMmPlanner> search(planner, c, cache);
  search.add(search.lay_out(costs), 1);
  return search.run();
}

}  // namespace plumbline
