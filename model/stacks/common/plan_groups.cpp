#include "model/stacks/common/plan_groups.hpp"

#include <algorithm>
#include <cmath>

#include "model/stacks/common/gemm_search.hpp"
#include "model/stacks/common/make_gemm_task.hpp"

namespace plumbline {
namespace {

using gemm::Context;
using gemm::Tile;
using gemm::TileCosts;
using gemm::TileLayout;
using gemm::Traffic;
using gemm::WorkSplit;

class GroupsPlanner {
 public:
  GroupsPlanner(const Context& context, const Groups& groups) : c(context), g_(groups) {}

  TileCosts costs(const GroupTile& of) const {
    const Tile tile = of.tile;
    TileCosts e = gemm::tile_costs(c, tile, gemm::kStepBytes / c.task.input_bytes, of.swapped);
    // sums of a block are multiplied by its scales and added to those before, in fp32 (DeepGEMM, deep_gemm/fp8_gemm.cuh)
    e.cluster = of.cluster;
    if (g_.block_sums && !g_.by_threads) e.fp32_clk += sums_clk(e);
    e.paired = is_paired(of);
    e.tensor_clk *= idle_lanes(of, e.paired);
    if (g_.sums_wait) e.tensor_clk += waits_for_sums_clk(e);
    const double row_side = e.row_side(), col_side = e.col_side();
    if (g_.striped) {
      e.smem_clk = (c.path.operand_reads(tile.rows, tile.cols, row_side, col_side) + row_side + col_side) / c.smem_port;
    } else if (c.path.kind == TensorPath::Kind::mma_sync) {
      const double reads = row_side * std::ceil(tile.cols / of.warp) + col_side * std::ceil(tile.rows / of.warp);
      e.smem_clk = (reads + row_side + col_side) / c.smem_port;
    }
    if (c.path.multicast) {
      constexpr double kBarriers = 3072;  // bytes beside the ring
      e.persistent = true;
      e.smem_clk -= (1 - gemm::kFillShare) * e.stage_bytes / c.smem_port;
      if (e.paired) e.stage_bytes -= 0.5 * col_side;
      e.stages = std::clamp(std::floor((c.smem - kBarriers) / e.stage_bytes), 2.0, c.path.most_stages);
      e.step_latency = c.family.step;
      // tensor memory holds two tiles' accumulators: one leaves while the next is summed (sm100_gemm_tma_warpspecialized)
      if (c.path.kind != TensorPath::Kind::tcgen05) e.serial_clk = e.once_clk;
      return e;
    }
    constexpr double kLeastStages = 3, kSmall = 64.0 * 64, kMostSmall = 4;
    const double accumulators = static_cast<double>(tile.rows) * tile.cols;
    const double room = std::floor(0.5 * static_cast<double>(c.rates.gpu.sm.registers) / accumulators);
    const double most = accumulators <= kSmall && !g_.striped ? kMostSmall : c.path.most_ctas;
    e.resident = std::clamp(std::min(room, std::floor(c.smem / (kLeastStages * e.stage_bytes))), 1.0, most);
    e.stages = std::clamp(std::floor(c.smem / (e.resident * e.stage_bytes)), 2.0, 4.0);
    e.step_latency = c.rates.dram_latency / e.stages;
    return e;
  }

  /// Each expert has whole tiles.
  void adapt(TileLayout& t) const {
    const TileCosts& e = *t.costs;
    const double tiles_m = g_.rows.tiles(e.tile_m);
    t.tiles = tiles_m * t.tiles_n;
    if (e.paired) gemm::share_by_pair(t, c);
    if (!c.path.multicast || g_.by_threads || tiles_m <= 0) return;
    if (of_one_tensor()) {
      share_tokens(t);
      if (c.task.batch <= 1) ask_outside(t, tiles_m);  // else boxes reach into the next product's rows
      return;
    }
    if (g_.block_sums) return;                             // boxes reach into the next expert's rows
    const double of_sm = e.paired && e.swapped ? 0.5 : 1;  // either SM of a pair fetches half of the tokens
    const double outside = of_sm * (e.tile_m - g_.rows.total() / tiles_m);
    t.edge_fill_clk += gemm::kOutsideRowClk * outside * e.tile_k * c.task.input_bytes / gemm::kStepBytes;
  }

  WorkSplit split(const TileLayout& t, double splits) const {
    WorkSplit s = gemm::tiled(t, splits);
    s.ctas = std::max(1.0, std::round(s.ctas));
    if (!g_.striped) return s;
    const double steps = s.ctas * s.steps, slots = std::min(steps, c.rates.sm_count * t.costs->resident);
    s.once_clk *= s.ctas / slots;
    s.ctas = slots;
    s.steps = std::ceil(steps / slots);
    return s;
  }

  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    Demand d = gemm::launch_demand(c, t, split, traffic);
    d.dram_read = std::max(Bytes{}, d.dram_read - g_.held);
    if (g_.results_stay && d.dram_write <= c.rates.l2_kept) d.dram_write = Bytes{};
    constexpr double kTwice = 2;  // times the row's scale, then times the column's and added (fused_moe_kernel())
    if (g_.block_sums && g_.by_threads) d.exposed_clk = kTwice * sums_clk(*t.costs);
    if (!c.path.multicast) return d;
    d.l2_limit = of_one_tensor() ? L2Limit::lines : L2Limit::ports;
    d.lookups = t.lookups * units::B;
    d.serial_latency = g_.first_trips * c.rates.gpu.memory.latency;
    d.serial_latency_of = "to load code, tensor maps and what they describe";
    if (g_.by_threads) d.next_tile_wait = c.family.per_cta;
    else d.exposed_clk += (before_products_clk(split) + in_batch_clk(*t.costs, split)) / split.steps;
    return d;
  }

  GemmPlan plan(const TileLayout& t, const WorkSplit& split) const { return gemm::plan_of(t, split); }

 private:
  /// On tcgen05 libraries have kernels of two SMs for each of these tiles (TensorRT-LLM's
  /// get_candidate_configs_sm100_dynamic_cluster_shape(): clusters of 2 x 1 x 1; DeepGEMM's and PyTorch's grouped products alike),
  /// which the search would choose wherever there is a second tile of rows: it fetches less and waits for no more. Clusters of 4 x 2,
  /// which fetch rows once for two tiles of columns, are left out, as are those of Triton.
  bool is_paired(const GroupTile& of) const {
    if (c.path.kind != TensorPath::Kind::tcgen05 || of.alone || g_.by_threads || g_.striped) return false;
    return (of.swapped ? c.task.n : c.task.m) > of.tile.rows;
  }

  /// An instruction of one SM of tcgen05 has 64 or 128 rows, and of 64 "1/2 datapath utilized" (PTX ISA, tcgen05.mma, data path
  /// layouts D and F): as long as of 128. Triton multiplies fewer than 64 rows by mma.sync. Nobody's clock of either is on file.
  double idle_lanes(const GroupTile& of, bool paired) const {
    constexpr double kLanes = 128, kLeast = 64;
    if (c.path.kind != TensorPath::Kind::tcgen05 || paired || g_.striped) return 1;
    const double rows = of.instruction_rows > 0 ? of.instruction_rows : of.tile.rows;
    const double by_mma_sync = mma_sync_flop_per_clk(c.task.math, c.rates);
    if (g_.by_threads && rows < kLeast && by_mma_sync > 0) return c.task.tensor_flop_per_clk / by_mma_sync;
    return rows < kLanes ? kLanes / std::max(rows, kLeast) : 1;
  }

  /// CTAs beside each other along N ask for the same tokens: a cluster's once, and requests of neighbours meet on their
  /// way to L2, which answers them by pairs.
  void share_tokens(TileLayout& t) const {
    constexpr double kMeet = 0.5;
    const TileCosts& e = *t.costs;
    t.delivered = e.a * (1 - 1 / e.cluster);
    t.l2_bytes = e.w + kMeet * e.a / e.cluster;
  }

  /// Boxes of one tensor reach beyond its last row.
  void ask_outside(TileLayout& t, double tiles_m) const {
    const TileCosts& e = *t.costs;
    const double there = g_.rows.total() / tiles_m;
    t.lookups = e.w + 0.5 * e.a * there / (e.tile_m * e.cluster);
    t.outside_clk = gemm::outside_clk(e.tile_m - there, std::min(t.tiles, c.rates.sm_count));
  }

  /// An expert's tensor maps are written before its first tile, and no loads go out meanwhile. The warps that multiply load the
  /// scales of a tile's columns themselves, and wait until the last tile's results have left the place that theirs will take:
  /// `kNextTileClk`, by training rows of 128 to 768 of K and four tiles an SM and more (H100 and H200 alike).
  double before_products_clk(const WorkSplit& split) const {
    constexpr double kNextTileClk = 1500;
    if (!g_.sums_wait) return c.family.per_cta / c.clk;
    const double turns = std::ceil(split.ctas / c.rates.sm_count);
    if (g_.rows_apart) return 0;  // nothing leaves by tensor maps
    return (turns - 1) / turns * kNextTileClk;
  }

  /// Of a batch (DeepGEMM's copy in TensorRT-LLM, StridedBatchedScheduler): a persistent CTA walks through the
  /// products, one after another, to those of its tiles (get_next_block()), and the warps that multiplied copy results
  /// out of shared memory, one row behind another, sixteen to a warp (write_result_to_gmem()). Clocks by training rows
  /// of the H200 and the H100.
  double in_batch_clk(const TileCosts& e, const WorkSplit& split) const {
    constexpr double kProductClk = 75, kRowClk = 180, kWarpRows = 16;
    if (!g_.rows_apart) return 0;
    const double there = g_.rows.total() / g_.rows.tiles(e.tile_m);
    const double rows = std::ceil(there * kWarpRows / e.tile_m);
    return kRowClk * rows + kProductClk * c.task.batch / std::ceil(split.ctas / c.rates.sm_count);
  }

  /// A warpgroup waits for its product before it adds it up, and multiplies no more meanwhile. Where columns do not divide a
  /// block of 128, each pair of sums chooses between two scales first (kMustUseUniformedScaleB).
  double waits_for_sums_clk(const TileCosts& e) const {
    constexpr double kBlock = 128, kTwoScales = 1.5;
    return sums_clk(e) * (std::fmod(kBlock, e.tile.cols) == 0 ? 1 : kTwoScales);
  }

  bool of_one_tensor() const { return g_.block_sums && g_.rows.rows.size() == 1; }

  double sums_clk(const TileCosts& e) const { return 2 * e.tile_m * e.tile_n / c.rates.gpu.sm.fp32_flop_per_clk; }

  const Context& c;
  const Groups& g_;
};

}  // namespace

namespace {

/// Kernels for mma.sync copy by cp.async, whatever the SM has beside it (sm_120).
TensorPath path_of(const Groups& g, const Rates& m) {
  if (g.striped) return {};
  TensorPath path = m.path;
  if (path.kind == TensorPath::Kind::mma_sync) path.multicast = false;
  return path;
}

}  // namespace

GemmChoice plan_groups(const Groups& g, const Rates& m, const FamilyScalars& family, GemmCache& cache) {
  const Context c(g.task, m, family, family, path_of(g, m), gemm::RowStarts{});
  const GroupsPlanner planner(c, g);
  gemm::Search<GroupsPlanner> search(planner, c, cache);
  // the smallest tile runs where none fits, as it would with fewer stages
  std::vector<TileCosts> costs;
  costs.reserve(g.menu.size());
  for (const GroupTile& tile : g.menu) costs.push_back(planner.costs(tile));
  const auto smallest = std::min_element(
      costs.begin(), costs.end(), [](const TileCosts& a, const TileCosts& b) { return a.stage_bytes < b.stage_bytes; });
  for (const TileCosts& e : costs) {
    if (gemm::fits(e, c.smem) || &e == &*smallest) search.add(search.lay_out(e), 1);
  }
  return search.run();
}

}  // namespace plumbline
