#include "model/stacks/cublas/sparse.hpp"

#include <algorithm>
#include <cmath>

#include "model/stacks/common/gemm_search.hpp"
#include "model/stacks/cublas/walk.hpp"
#include "model/stacks/cublas/xmma.hpp"
#include "ops/as_double.hpp"

namespace plumbline {
namespace {

using gemm::Context;
using gemm::Tile;
using gemm::TileCosts;
using gemm::TileLayout;
using gemm::Traffic;
using gemm::WorkSplit;

constexpr Tile kSparseTile{128, 256};
constexpr double kSparseBarriers = 3072;  ///< bytes beside the ring

/// "sm90_xmma_sparse_gemm_..._tn_t_tilesize128x256x64_..._warpgroupsize2x1x1": what cuSPARSELt 0.8 runs by its first algorithm,
/// which PyTorch asks for, where rows of x lie in memory: 112 of 112 recorded products in bf16, 33 of 33 in fp16, whose CTAs come
/// in clusters of four along N (H200, 2026-11-29). Rows of the tile are the weights'. Of every 64 columns of K the tensor units
/// take the time of 32, but read 256 rows of x whole, once for each warpgroup: that takes longer.
class SparsePlanner {
 public:
  explicit SparsePlanner(const Context& context) : c(context) {}

  TileCosts costs() const {
    TileCosts e = gemm::tile_costs(c, kSparseTile, gemm::step_of(c.task), true);
    e.persistent = true;
    e.cluster = e.cluster_cols = ctas_of_cluster();
    e.smem_clk -= (1 - gemm::kFillShare) * e.stage_bytes / c.smem_port;
    e.stages = std::clamp(std::floor((c.smem - kSparseBarriers) / e.stage_bytes), 2.0, c.path.most_stages);
    e.step_latency = c.family.step;
    e.serial_clk = e.once_clk;
    return e;
  }

  /// Where there are 64 tokens, 192 of a tile's 256 rows of x are not there.
  void adapt(TileLayout& t) const {
    cublas::share_in_clusters(t, c);
    t.l2_bytes *= kLookedUp;
  }

  /// SMs that hold no whole cluster are idle in each turn but the last.
  WorkSplit split(const TileLayout& t, double splits) const {
    WorkSplit s = gemm::tiled(t, splits);
    s.second_launch = false;
    s.meet_clk = splits > 1 ? c.family.merge_clk : 0;
    const double at_once = cublas::ctas_in_clusters(t.costs->cluster, c.rates.sm_count);
    s.ctas += (std::ceil(s.ctas / at_once) - 1) * (c.rates.sm_count - at_once);
    return s;
  }

  /// K whole, or in halves that both have a place ("segment_k_on"; in bf16 8 of 9 recorded products of up to half as many tiles
  /// as SMs and K of 8576 and more, the ninth in 11 parts, none of 50 below). Last turns of more tiles are cut too, but take as long as whole ones.
  template <class Visit>
  void for_each_split(const TileLayout& t, const Visit& visit) const {
    constexpr double kLeastSteps = 128;
    visit(1.0);
    if (2 * t.tiles <= c.rates.sm_count && t.k_steps >= kLeastSteps) visit(2.0);
  }

  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    Demand d = gemm::launch_demand(c, t, split, traffic);
    if (traffic == Traffic::counted) d.dram_read = (cublas::walked_bytes(c) + c.task.bias_bytes) * units::B;
    d.l2_limit = L2Limit::lines;  // CTAs fetch alone: 9.5 TB/s of 95 of them, some 10 of 132
    d.serial_latency = gemm::kColdTrips * c.rates.gpu.memory.latency + split.meet_clk * c.clk;
    d.serial_latency_of = split.meet_clk > 0 ? "to load tensor maps and for the sums of a tile to meet"
                                             : "to load code, tensor maps and what they describe";
    // a launch before clears a counter, and one more the place where parts meet
    if (split.ctas > 2 * c.rates.sm_count) d.serial_latency += clear();
    if (split.splits > 1) d.serial_latency += clear();
    return d;
  }

  static GemmPlan plan(const TileLayout& t, const WorkSplit& split) {
    GemmPlan plan = gemm::plan_of(t, split);
    plan.cluster_n = static_cast<std::int64_t>(t.costs->cluster);
    return plan;
  }

 private:
  /// Of what is asked of L2; the rest meets a neighbour's request for the same lines. (Training products
  /// of more than a turn take some 10 TB/s, a median of 16 with K above 2000, where L2 gives 9.1 of distinct lines.)
  static constexpr double kLookedUp = 0.89;
  /// The time of a launch that clears, in clocks, as other cards' are quicker with their clocks: 0.8 us of an H200, a median of 122.
  Seconds clear() const {
    constexpr double kClear = 1584;
    return kClear / c.rates.gpu.boost_clock;
  }

  double ctas_of_cluster() const { return c.task.math == DType::fp16 ? 4 : 1; }

  const Context& c;
};

}  // namespace

bool cublas::holds_sparse_tiles(const GemmTask& t, const Rates& m) {
  constexpr double kWidest = 2;  // bytes: operands that the library multiplies as they lie
  if (std::max(t.input_bytes, t.weight_bytes) > kWidest) return false;
  const double stage =
      gemm::step_of(t) * (kSparseTile.rows * t.weight_bytes * t.weight_kept + kSparseTile.cols * t.input_bytes);
  return m.path.kind == TensorPath::Kind::wgmma && 2 * stage + kSparseBarriers <= m.gpu.sm.smem.in(units::B);
}

GemmChoice cublas::plan_sparse(const Context& c, GemmCache& cache) {
  const SparsePlanner planner(c);
  const TileCosts costs = planner.costs();
  gemm::Search<SparsePlanner> search(planner, c, cache);
  const TileLayout& t = search.lay_out(costs);
  planner.for_each_split(t, [&](double splits) { search.add(t, splits); });
  return search.run();
}

Demand cublas::sparsify_demand(const Sparsify24& s, const Work& w, const FamilyScalars& family, const Rates& m) {
  constexpr double kRows = 32, kCols = 64, kThreadsOfCta = 32, kMostCtas = 32;
  Demand out;
  out.plan.ctas = static_cast<std::int64_t>(std::ceil(d(s.rows) / kRows) * std::ceil(d(s.cols) / kCols));
  out.plan.threads = static_cast<std::int64_t>(kThreadsOfCta);
  out.plan.ctas_per_sm = static_cast<std::int64_t>(kMostCtas);
  out.issue_clk = family.step_clk;
  out.step_latency = m.dram_latency + family.step;
  out.l2 = w.bytes() / static_cast<double>(out.plan.ctas);
  out.dram_read = w.read;
  out.dram_write = w.write;
  return out;
}

}  // namespace plumbline
