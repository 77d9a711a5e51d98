// PyTorch 2.11, aten/src/ATen/native/cuda/GroupMM.cu: two kernels of CUTLASS with pointers for each expert, a CTA an SM,
// clusters of two CTAs one above the other. Experts of at most 128 rows in the mean: tiles of 64 x 128, a step of 128 of
// K, two warpgroups that take turns with whole tiles; else 128 x 256, a step of 64, two warpgroups side by side. Gradients
// of the experts' weights go by the same kernels, with an expert's rows as K.
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

/// Whole pieces of `piece` rows that an expert's rows take, mean over experts whose rows lie evenly between (1 - spread)
/// and (1 + spread) of the mean: the last piece of each is half full, wherever they do not all end at the same place.
double whole_pieces(double mean, double spread, double piece) {
  const auto sum_to = [piece](double rows) {
    const double whole = std::floor(rows / piece);
    return piece * whole * (whole + 1) / 2 + (rows - whole * piece) * (whole + 1);
  };
  if (!(spread > 0)) return std::ceil(mean / piece);
  const double low = (1 - spread) * mean, high = (1 + spread) * mean;
  return (sum_to(high) - sum_to(low)) / (high - low);
}

class GroupedMmPlanner {
 public:
  GroupedMmPlanner(const Context& context, const GroupedMm& asked) : c(context), asked_(asked) {}

  TileCosts costs() const {
    TileCosts e =
        asked_.small ? gemm::tile_costs(c, {64, 128}, 128, false) : gemm::tile_costs(c, {128, 256}, 64, false);
    e.cluster = kCluster;
    e.persistent = true;
    e.smem_clk -= (1 - gemm::kFillShare) * e.stage_bytes / c.smem_port;
    e.stages = kStages;
    e.step_latency = c.family.step;
    // warpgroups that take turns with tiles leave one's epilogue behind the other's products
    e.serial_clk = asked_.small ? 0 : e.once_clk;
    return e;
  }

  /// Both CTAs of a pair run, whether the expert has rows for both or not: rows that it does not have are written as
  /// zeros. Each fetches half of the columns for both.
  void adapt(TileLayout& t) const {
    const TileCosts& e = *t.costs;
    t.fill_clusters(c);
    if (asked_.by_rows) {
      t.k_steps = whole_pieces(c.task.k, asked_.spread, e.tile_k);
    } else if (asked_.spread > 0) {
      t.tiles_m = kCluster * whole_pieces(c.task.m, asked_.spread, kCluster * e.tile_m);
      t.tiles = t.tiles_m * t.tiles_n * c.task.batch;
    }
    t.delivered = e.w * (1 - 1 / kCluster);
    t.l2_bytes = e.a + e.w - t.delivered;
  }

  WorkSplit split(const TileLayout& t, double splits) const {
    WorkSplit split = gemm::tiled(t, splits);
    split.steps = t.k_steps;
    return split;
  }

  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    Demand d = gemm::launch_demand(c, t, split, traffic);
    d.l2_limit = L2Limit::ports;
    d.dealt_once = true;
    d.serial_latency = gemm::kColdTrips * c.rates.gpu.memory.latency;
    d.serial_latency_of = "to load code, tensor maps and what they describe";
    d.next_tile_wait = c.family.per_cta;
    // rows that experts do not have are asked of L2 all the same, by all CTAs at one place (training rows of few tokens an expert take
    // as long on an H100 as on an H200, whose memory is 1.4 times as fast)
    const double each = (t.tiles_m * t.costs->tile_m - c.task.m) / t.tiles_m;
    const double boxes = t.costs->tile_k * c.task.input_bytes / gemm::kStepBytes;
    const double at_once = std::min(c.rates.sm_count, static_cast<double>(d.plan.ctas));
    d.port_fill_clk = gemm::outside_clk(each * boxes, at_once) * at_once;
    return d;
  }

  GemmPlan plan(const TileLayout& t, const WorkSplit& split) const {
    GemmPlan plan = gemm::plan_of(t, split);
    plan.cluster_m = static_cast<std::int64_t>(kCluster);
    return plan;
  }

 private:
  const Context& c;
  const GroupedMm& asked_;
};

}  // namespace

GroupedMm grouped_mm_task(const GroupedGemm& s, const Rates& rates) {
  constexpr std::int64_t kFewRows = 128;
  constexpr double kPercent = 100;
  const std::int64_t rows = s.tokens * s.topk / s.experts;
  const std::int64_t m = s.wgrad ? s.n : rows, n = s.wgrad ? s.k : s.n;
  GroupedMm asked{gemm_task(s, rates), m <= kFewRows || n <= kFewRows, s.wgrad, s.skew / kPercent};
  if (s.wgrad) asked.task.k = static_cast<double>(s.tokens * s.topk) / asked.task.batch;  // rows as they are
  return asked;
}

bool has_grouped_mm(const GroupedMm& g, const Rates& m) {
  GemmTask rows = g.task;
  if (g.by_rows) rows.k = rows.m;  // operands lie along the result's rows and columns, whatever an expert's rows are
  return m.path.multicast && gemm::whole_units(rows) && rows.math == DType::bf16 && rows.dequant_per_weight == 0;
}

GemmChoice plan_grouped_mm(const GroupedMm& g, const Rates& rates, const FamilyScalars& family, GemmCache& cache) {
  const Context c(g.task, rates, family, family, rates.path, gemm::row_starts(g.task));
  const GroupedMmPlanner planner(c, g);
  const TileCosts costs = planner.costs();
  gemm::Search<GroupedMmPlanner> search(planner, c, cache);
  search.add(search.lay_out(costs), 1);
  return search.run();
}

}  // namespace plumbline
