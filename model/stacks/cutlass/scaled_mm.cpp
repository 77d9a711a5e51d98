#include "model/stacks/cutlass/scaled_mm.hpp"

#include <algorithm>
#include <cmath>

#include "model/stacks/common/gemm_search.hpp"
#include "model/stacks/cutlass/scaled_tiles.hpp"

namespace plumbline::cutlass {
namespace {

using gemm::Context;
using gemm::TileCosts;
using gemm::TileLayout;
using gemm::Traffic;
using gemm::WorkSplit;

double whole_clusters(double tiles, double cluster) { return std::ceil(tiles / cluster) * cluster; }

class ScaledPlanner {
 public:
  ScaledPlanner(const Context& context, const ScaledTile& tile) : c(context), t_(tile) {}

  TileCosts costs() const {
    constexpr double kBesideRing = 16384;  // results on their way out, barriers (StageCountAutoCarveout)
    TileCosts e = gemm::tile_costs(c, t_.tile, t_.step, t_.swapped);
    if (c.path.kind == TensorPath::Kind::mma_sync) return by_warps(e);
    e.persistent = t_.persistent;
    e.smem_clk -= (1 - gemm::kFillShare) * e.stage_bytes / c.smem_port;
    if (t_.paired) {  // each SM keeps and reads half of the columns' operand
      const double reads = c.path.operand_reads(e.tile.rows, e.tile.cols, 0, e.col_side());
      e.smem_clk -= 0.5 * (reads + gemm::kFillShare * e.col_side()) / c.smem_port;
      e.stage_bytes -= 0.5 * e.col_side();
    }
    e.stages = std::clamp(std::floor((c.smem - kBesideRing) / e.stage_bytes), 2.0, c.path.most_stages);
    e.step_latency = c.family.step;
    if (c.path.kind == TensorPath::Kind::wgmma && t_.persistent && !t_.in_turns) join_warpgroups(e);
    return e;
  }

  void adapt(TileLayout& t) const {
    if (by_maps()) t.l2_bytes *= 0.5 * (1 + c.starts.lines);
  }

  WorkSplit split(const TileLayout& t, double splits) const {
    WorkSplit s = gemm::tiled(t, splits);
    s.cluster_rows = t_.swapped ? t_.cluster_cols : t_.cluster_rows;
    s.cluster_cols = t_.swapped ? t_.cluster_rows : t_.cluster_cols;
    s.ctas = whole_clusters(t.tiles_m, s.cluster_rows) * whole_clusters(t.tiles_n, s.cluster_cols);
    return s;
  }

  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    Demand d = gemm::launch_demand(c, t, split, traffic);
    if (!by_maps()) return d;
    share(d, t, split);
    d.l2_limit = L2Limit::ports;
    d.serial_latency = gemm::kColdTrips * c.rates.gpu.memory.latency + c.family.start_clk * c.clk;
    d.serial_latency_of = "to load code, tensor maps and what they describe";
    return d;
  }

  GemmPlan plan(const TileLayout& t, const WorkSplit& split) const {
    GemmPlan plan = gemm::plan_of(t, split);
    plan.cluster_m = static_cast<std::int64_t>(split.cluster_rows);
    plan.cluster_n = static_cast<std::int64_t>(split.cluster_cols);
    return plan;
  }

 private:
  /// The family's share of the tensor rate is what one warpgroup reaches, which is alone with a tile in all of the
  /// kernels but this one; two reach what cuBLAS's do. Two store a tile in half the time, and multiply no more
  /// meanwhile.
  void join_warpgroups(TileCosts& e) const {
    constexpr double kTogether = 0.979;
    e.tensor_clk *= c.family.efficiency / kTogether;
    e.once_clk *= 0.5;
    e.serial_clk = e.once_clk;
  }

  bool by_maps() const { return c.path.kind != TensorPath::Kind::mma_sync; }

  /// Kernels of mma.sync: each warp fetches its part of both operands.
  TileCosts by_warps(TileCosts e) const {
    const double reads =
        e.row_side() * std::ceil(t_.tile.cols / t_.warp_cols) + e.col_side() * std::ceil(t_.tile.rows / t_.warp_rows);
    e.smem_clk = (reads + e.row_side() + e.col_side()) / c.smem_port;
    const double rings = std::floor(c.smem / e.stage_bytes);
    const double sums = static_cast<double>(t_.tile.rows) * t_.tile.cols;
    const double room = std::floor(0.5 * static_cast<double>(c.rates.gpu.sm.registers) / sums);
    if (t_.stages > 0) e.resident = std::clamp(std::min(room, std::floor(rings / t_.stages)), 1.0, c.path.most_ctas);
    e.stages = std::clamp(rings, 2.0, t_.stages > 0 ? t_.stages : c.path.most_stages);
    e.step_latency = c.rates.dram_latency / e.stages;
    return e;
  }

  /// CTAs of a cluster each fetch a part of what they have in common for all; the two SMs of a pair are neighbours along the
  /// tile's rows there, and half of the columns' operand is what each of them keeps. Rows that an operand does not have are
  /// asked for all the same (gemm::outside_clk), and by tiles that only fill a cluster.
  void share(Demand& d, const TileLayout& t, const WorkSplit& split) const {
    const TileCosts& e = *t.costs;
    d.plan.cluster = static_cast<std::int64_t>(split.cluster_rows * split.cluster_cols);
    const double asked = e.a / split.cluster_cols + e.w / split.cluster_rows;
    d.l2 = asked * 0.5 * (1 + c.starts.lines) * units::B;
    d.delivered = (e.a + e.w - asked) * units::B;
    const double tiles_m = whole_clusters(t.tiles_m, split.cluster_rows),
                 tiles_n = whole_clusters(t.tiles_n, split.cluster_cols);
    const double each = (tiles_m * e.tile_m - c.task.m) / tiles_m / split.cluster_cols +
                        (tiles_n * e.tile_n - c.task.n) / tiles_n / split.cluster_rows;
    const double at_once = gemm::ctas_at_once(c, t, split);
    d.port_fill_clk = gemm::outside_clk(each * e.tile_k / gemm::kStepBytes, at_once) * at_once;
  }

  const Context& c;
  const ScaledTile t_;
};

}  // namespace

GemmChoice plan_scaled(const GemmTask& task, const Rates& m, const FamilyScalars& family, GemmCache& cache) {
  const Context c(task, m, family, family, m.path, gemm::row_starts(task));
  const ScaledPlanner planner(c, scaled_tile(task, m));
  gemm::Search<ScaledPlanner> search(planner, c, cache);
  const TileCosts costs = planner.costs();
  search.add(search.lay_out(costs), 1);
  return search.run();
}

/// A CTA has a row. In its turns it goes through 2048 values each, whether there are as many or not, and an SM's issue
/// is what they go by: published products of 128 to 32768 rows by 32 to 65536 columns take 2.5 ns a row and 4 ns a turn
/// of the row more than their products on an H100. (As the source has it, static_scaled_fp8_quant() of
/// csrc/quantization/w8a8/fp8/common.cu, it would go by bytes, and rows of that launch alone do. What runs in its place
/// is not known.)
Demand round_given(double rows, double cols, DType from, double held, const FamilyScalars& f, const Rates& m) {
  constexpr double kTurn = 2048, kThreads = 256;
  Demand d;
  d.plan.ctas = static_cast<std::int64_t>(rows);
  d.plan.threads = static_cast<std::int64_t>(kThreads);
  d.plan.ctas_per_sm = std::max<std::int64_t>(1, m.gpu.sm.threads / d.plan.threads);
  d.plan.steps = d.plan.longest = std::ceil(cols / kTurn);
  d.issue_clk = f.step_clk + f.start_clk / d.plan.steps;
  const Bytes read = storage(from, rows * cols), written = storage(DType::fp8, rows * cols);
  d.l2 = (read + written) / (rows * d.plan.steps);
  d.step_latency = m.l2_mean_latency() + f.step;
  const bool stays = read + written <= m.l2_kept;
  d.dram_read = stays ? Bytes{} : (1 - held) * read;
  d.dram_write = stays ? Bytes{} : written;
  return d;
}

}  // namespace plumbline::cutlass
