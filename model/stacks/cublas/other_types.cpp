#include "model/stacks/cublas/other_types.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/stacks/common/gemm_search.hpp"

namespace plumbline {
namespace {

using gemm::Context;
using gemm::Tile;
using gemm::TileCosts;
using gemm::TileLayout;
using gemm::Traffic;
using gemm::WorkSplit;

/// A tile, the part of it that a warp has, what fits an SM.
struct WarpTile {
  Tile tile;
  double warp_rows, warp_cols, stages, resident;

  double warps() const { return tile.rows / warp_rows * (tile.cols / warp_cols); }
};

/// Each warp fetches its own rows of one operand and its own columns of the other, once both were written.
double shared_memory_clk(const Context& c, const WarpTile& w, const TileCosts& e) {
  return (e.row_side() * (w.tile.cols / w.warp_cols + 1) + e.col_side() * (w.tile.rows / w.warp_rows + 1)) /
         c.smem_port;
}

TileCosts costs_of(const Context& c, const WarpTile& w, double tile_k, bool swapped) {
  TileCosts e = gemm::tile_costs(c, w.tile, tile_k, swapped);
  e.smem_clk = shared_memory_clk(c, w, e);
  // an SM with less shared memory than Hopper's has fewer of them, in the end of fewer stages
  const double rings = std::floor(c.smem / e.stage_bytes);
  e.resident = std::clamp(std::floor(rings / w.stages), 1.0, w.resident);
  e.stages = std::clamp(rings, 2.0, w.stages);
  e.step_latency = c.rates.dram_latency / e.stages;
  return e;
}

/// cutlass_80_tensorop_i16832gemm_s8_<tile>_128x<stages>: four warps but for the widest, which has eight. Rows of the tile lie
/// along N (cuBLAS's results are column-major; grids say so).
enum Int8Tile : std::size_t { kWide, kSquare, kNarrow, kNarrowDeep, kSmall };
constexpr std::array<WarpTile, 5> kInt8Tiles{{{{128, 256}, 64, 64, 3, 1},
                                              {{128, 128}, 64, 64, 5, 1},
                                              {{128, 64}, 64, 32, 3, 3},
                                              {{128, 64}, 64, 32, 6, 1},
                                              {{64, 64}, 32, 32, 6, 2}}};

/// Which of them cuBLAS 13.1 takes, which is often not the quickest: read off 124 kernel names (H200, training shapes,
/// 2026-11-23 and 24). By K first, then by how many turns of the SMs the tiles are. Limits lie between the nearest two shapes.
std::size_t int8_tile(const GemmTask& t, double sm_count) {
  constexpr double kShallow = 3840, kDeep = 8192, kDeepRing = 4096;
  constexpr double kFewSmall = 1.35, kFewNarrow = 2.3, kManyWide = 1.8, kManyWideDeep = 1.46;
  const auto turns = [&](std::size_t which) {
    const Tile tile = kInt8Tiles[which].tile;
    return t.batch * std::ceil(t.m / tile.cols) * std::ceil(t.n / tile.rows) / sm_count;
  };
  const double small = turns(kSmall), wide = turns(kWide);
  if (small <= kFewSmall) return kSmall;
  if (t.k >= kDeep) return wide >= kManyWideDeep ? kWide : kSquare;
  if (t.k >= kShallow && wide >= kManyWide) return kWide;
  return t.k < kDeepRing && small <= kFewNarrow ? kNarrowDeep : kNarrow;
}

struct SplitOfTiles {
  static WorkSplit split(const TileLayout& t, double splits) { return gemm::tiled(t, splits); }
  static GemmPlan plan(const TileLayout& t, const WorkSplit& split) { return gemm::plan_of(t, split); }
  static void adapt(TileLayout& /*layout*/) {}
};

class Int8Planner : public SplitOfTiles {
 public:
  explicit Int8Planner(const Context& context) : c(context) {}

  TileCosts costs(const WarpTile& w) const {
    // a ring of three that is alone on its SM: 0.49 us a step (128 x 6144 x 4096), where two of them take 0.75
    constexpr double kStep = 128, kShortRing = 3, kShortRingClk = 830;
    TileCosts e = costs_of(c, w, kStep, true);
    if (w.stages <= kShortRing && w.resident > 1) e.chain_clk = kShortRingClk;
    return e;
  }

  /// `step_clk` of the family: what fragments of a step wait for that nothing hides, a CTA of the SM either.
  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    Demand d = gemm::launch_demand(c, t, split, traffic);
    d.l2_limit = L2Limit::ports;  // CTAs of a block of tiles run side by side (swizzled grids)
    d.exposed_clk = c.family.step_clk;
    d.chain_clk = t.costs->chain_clk;
    if (c.task.batch <= 1) d.plan.ctas = static_cast<std::int64_t>(placed(t));
    return d;
  }

  /// Grids are (8 x tiles along M, tiles along N / 8), so that CTAs of the last row may have no tile: they end at once. Where
  /// all CTAs have a place from the beginning, an SM has as many as are dealt to it up to the last tile.
  double placed(const TileLayout& t) const {
    constexpr double kBlock = 8;
    const double before = std::ceil(t.tiles_n / kBlock) - 1, row = kBlock * t.tiles_m;
    const double up_to_last = before * row + row - kBlock + t.tiles_n - kBlock * before;
    return (before + 1) * row <= c.rates.sm_count * t.costs->resident ? up_to_last : t.tiles;
  }

 private:
  const Context& c;
};

/// sm80_xmma_gemm_f32f32_..._tilesize<tile>x8_stage3_warpsize<warps>_ffma: how many an SM's registers hold; what a warp
/// executes for one column of K, counted by ncu (H200, 2026-11-23): a multiply-add for each of its products / 32, and 13 to 20
/// instructions beside them (64 x 128 and 256 x 64: as their mirrors); and the slots of a column in which none is ready, as operands
/// meet in one bank of the register file: what launches of 60 drawn training shapes take a column beyond their instructions
/// (H200, 2026-11-24; of the tile of 128 x 128 counted too, 18.5). 32 x 32 was not seen there.
struct LaneTile {
  WarpTile shape;
  double instructions, waits;
};
constexpr std::array<LaneTile, 9> kLaneTiles{{{{{128, 128}, 64, 64, 3, 2}, 145.8, 18.5},
                                              {{{64, 256}, 64, 64, 3, 2}, 147.6, 23},
                                              {{{256, 64}, 128, 32, 3, 2}, 147.6, 23},
                                              {{{128, 64}, 64, 32, 3, 2}, 77.2, 27},
                                              {{{64, 128}, 64, 32, 3, 2}, 77.2, 25},
                                              {{{64, 64}, 64, 16, 3, 4}, 44.6, 15},
                                              {{{32, 128}, 32, 64, 3, 4}, 83.0, 62},
                                              {{{32, 64}, 32, 32, 3, 9}, 45.4, 29},
                                              {{{32, 32}, 32, 16, 3, 12}, 30.9, 18.5}}};
/// Parts of K: until the SMs have had four turns (384 x 4096 x 14336: 96 tiles in 11 parts), of 14 steps of 8 columns at
/// least (99 % of 3796 answers of cuBLASLt's heuristic that cut K have 16 or more, the shortest 8;
/// data/measurements/h200/pytorch/choices.csv.gz).
constexpr double kMostLaneSplits = 16, kMostTurns = 4, kLeastLaneSteps = 14;

class LanePlanner : public SplitOfTiles {
 public:
  explicit LanePlanner(const Context& context) : c(context) {}

  /// One of a ring's three steps is being multiplied and one is being written.
  TileCosts costs(const LaneTile& w) const {
    constexpr double kStep = 8, kOnTheirWay = 1;
    TileCosts e = costs_of(c, w.shape, kStep, false);
    const double slots = kStep * (w.instructions + w.waits);
    e.fp32_clk = e.tensor_clk;
    e.tensor_clk = 0;
    // one warp alone issues once a clock, however many schedulers there are
    e.step_latency = std::max(c.rates.dram_latency / kOnTheirWay, slots * c.clk);
    e.issue_clk = slots * w.shape.warps() / c.rates.gpu.sm.issue_per_clk;
    return e;
  }

  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    Demand d = gemm::launch_demand(c, t, split, traffic);
    d.l2_limit = L2Limit::ports;
    return d;
  }

 private:
  const Context& c;
};

}  // namespace

bool cublas::runs_as_int8(const GemmTask& t, const Rates& m) {
  return t.kind == GemmKind::dense && t.math == DType::int8 && t.dequant_per_weight == 0 &&
         m.path.kind == TensorPath::Kind::wgmma;
}

GemmChoice cublas::plan_int8(const Context& c, GemmCache& cache) {
  constexpr std::array<double, 1> kWhole{1};
  const Int8Planner planner(c);
  const std::vector<TileCosts>& menu = cache.state().menu(c.task, [&](std::vector<TileCosts>& tiles) {
    for (const WarpTile& w : kInt8Tiles) tiles.push_back(planner.costs(w));
  });
  gemm::Search<Int8Planner> search(planner, c, cache);
  const TileCosts& taken = menu[int8_tile(c.task, c.rates.sm_count)];
  if (c.task.alone_flops <= 0 && gemm::fits(taken, c.smem)) {
    search.add(search.lay_out(taken), 1);
    return search.run();
  }
  search.add_menu(menu, kWhole);
  if (search.empty()) search.add(search.lay_out(menu.back()), 1);  // the smallest runs where none fits
  return search.run();
}

bool cublas::runs_on_lanes(const GemmTask& t, const Rates& m) {
  constexpr double kWarp = 32, kFlops = 2;
  const auto& sm = m.gpu.sm;
  return t.kind == GemmKind::dense && t.math == DType::fp32 && sm.tensor_flop_per_clk[DType::fp32] <= 0 &&
         sm.fp32_flop_per_clk >= kFlops * kWarp * sm.issue_per_clk;
}

GemmChoice cublas::plan_lanes(const Context& c, GemmCache& cache) {
  const LanePlanner planner(c);
  const std::vector<TileCosts>& menu = cache.state().menu(c.task, [&](std::vector<TileCosts>& tiles) {
    for (const LaneTile& w : kLaneTiles) tiles.push_back(planner.costs(w));
  });
  gemm::Search<LanePlanner> search(planner, c, cache);
  constexpr double kFewRows = 32;  // tiles of 32 rows are seen where there are no more
  for (const TileCosts& e : menu) {
    if (e.tile_m <= kFewRows && c.task.m > kFewRows) continue;
    const TileLayout& t = search.lay_out(e);
    const double slots = c.rates.sm_count * e.resident;
    for (double splits = 1; splits <= kMostLaneSplits; ++splits) {
      if (splits > 1 && (t.tiles * splits > kMostTurns * slots || t.k_steps < kLeastLaneSteps * splits)) break;
      search.add(t, splits);
    }
  }
  return search.run();
}

}  // namespace plumbline
