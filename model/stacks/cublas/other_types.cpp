#include "model/stacks/cublas/other_types.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/stacks/common/gemm_search.hpp"
#include "model/stacks/common/mma_registers.hpp"
#include "model/stacks/cublas/answers.hpp"
#include "model/stacks/cublas/xmma.hpp"

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

/// cutlass_80_tensorop_i16832gemm_s8_<tile>_128x<stages>: four warps but for the widest, which has eight. Rows of the
/// tile lie along N (cuBLAS's results are column-major; grids say so).
enum Int8Tile : std::size_t { kWide, kSquare, kNarrow, kNarrowDeep, kSmall };
constexpr std::array<WarpTile, 5> kInt8Tiles{{{{128, 256}, 64, 64, 3, 1},
                                              {{128, 128}, 64, 64, 5, 1},
                                              {{128, 64}, 64, 32, 3, 3},
                                              {{128, 64}, 64, 32, 6, 1},
                                              {{64, 64}, 32, 32, 6, 2}}};

/// Which of them cuBLAS 13.1 takes, which is often not the quickest: read off 124 kernel names (H200, training shapes,
/// 2026-11-23 and 24). By K first, then by how many turns of the SMs the tiles are. Limits lie between the nearest two
/// shapes.
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

/// Grids are (8 x tiles along M, tiles along N / 8, parts of K), so that CTAs of the last row may have no tile: they end at once.
/// Where all CTAs have a place from the beginning, an SM has as many as are dealt to it up to the last tile.
double placed(const TileLayout& t, const WorkSplit& split, double sm_count) {
  constexpr double kBlock = 8;
  const double before = std::ceil(t.tiles_n / kBlock) - 1, row = kBlock * t.tiles_m, part = (before + 1) * row;
  const double up_to_last = (split.splits - 1) * part + before * row + row - kBlock + t.tiles_n - kBlock * before;
  return split.splits * part <= sm_count * t.costs->resident ? up_to_last : split.ctas;
}

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
    if (c.task.batch <= 1) d.plan.ctas = static_cast<std::int64_t>(placed(t, split, c.rates.sm_count));
    return d;
  }

 private:
  const Context& c;
};

/// cutlass_80_tensorop_s1688gemm_<tile>_32x<stages>_tn_align4, four warps. Rows of the tile lie along N.
struct SmallTf32Tile {
  WarpTile shape;
  double ctas_an_sm;  ///< up to which K is cut
};
constexpr std::array<SmallTf32Tile, 4> kSmallTf32Tiles{{{{{64, 64}, 32, 32, 6, 2}, 1},
                                                        {{{64, 64}, 32, 32, 5, 2}, 2},
                                                        {{{128, 64}, 64, 32, 6, 1}, 1},
                                                        {{{64, 128}, 32, 64, 6, 1}, 1}}};

class SmallTf32Planner : public SplitOfTiles {
 public:
  explicit SmallTf32Planner(const Context& context) : c(context) {}

  /// Operands come as fp32: each element that a warp takes into its registers is rounded there before it is multiplied, 64 a clock
  /// (CUDA programming guide, conversions from 32 bits, 9.0). Tensor units wait for it, as a scheduler has but one warp of a CTA.
  TileCosts costs(const SmallTf32Tile& w) const {
    constexpr double kRoundedAClk = 64;
    TileCosts e = costs_of(c, w.shape, kStep, true);
    e.tensor_clk += w.shape.warps() * (w.shape.warp_rows + w.shape.warp_cols) * kStep / kRoundedAClk;
    return e;
  }

  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    Demand d = gemm::launch_demand(c, t, split, traffic);
    d.l2_limit = L2Limit::ports;  // CTAs of a block of tiles run side by side (swizzled grids)
    const double flop = 2.0 * c.task.m * c.task.n * c.task.k / (split.ctas * split.steps);
    d.smem_hidden_clk += flop * kMmaRegisterBytesTf32 / c.smem_port;
    d.plan.ctas = static_cast<std::int64_t>(placed(t, split, c.rates.sm_count));
    return d;
  }

  /// K in as many parts as have a place (of 313 answers with weights [N,K] 251 have as many as there are SMs for, 44 as many as
  /// there are pairs).
  double parts(const TileLayout& t, const SmallTf32Tile& w) const {
    return std::clamp(std::floor(w.ctas_an_sm * c.rates.sm_count / t.tiles), 1.0, static_cast<double>(t.k_steps));
  }

 private:
  static constexpr double kStep = 32;

  const Context& c;
};

/// sm80_xmma_gemm_f32f32_..._tilesize<tile>x8_stage3_warpsize<warps>_ffma: how many an SM's registers hold (254, 218,
/// 190, 128, 102 and 80 a thread); what a warp executes for one column of K, counted by ncu (H200, 2026-11-23): a
/// multiply-add for each of its products / 32, and 13 to 20 instructions beside them (64 x 128 and 256 x 64: as their
/// mirrors); the slots of a column in which none is ready, as operands meet in one bank of the register file, where a
/// scheduler has several warps; and those of a CTA that has its SM for itself. The last two: what 710 launches of
/// training shapes take a column, by tile, found together with what a CTA takes once (H200, 2026-11-24 and 28).
struct LaneTile {
  WarpTile shape;
  double instructions, waits, waits_alone;
};
constexpr std::array<LaneTile, 9> kLaneTiles{{{{{128, 128}, 64, 64, 3, 2}, 145.8, 13.5, 22},
                                              {{{64, 256}, 64, 64, 3, 2}, 147.6, 16, 29},
                                              {{{256, 64}, 128, 32, 3, 2}, 147.6, 13, 29},
                                              {{{128, 64}, 64, 32, 3, 2}, 77.2, 13.5, 36},
                                              {{{64, 128}, 64, 32, 3, 2}, 77.2, 14, 41},
                                              {{{64, 64}, 64, 16, 3, 4}, 44.6, 8.5, 60},
                                              {{{32, 128}, 32, 64, 3, 4}, 83.0, 34.5, 34.5},
                                              {{{32, 64}, 32, 32, 3, 9}, 45.4, 24, 52},
                                              {{{32, 32}, 32, 16, 3, 12}, 30.9, 18.5, 50}}};
/// Parts of K: until the SMs have had four turns (384 x 4096 x 14336: 96 tiles in 11 parts), of 14 steps of 8 columns
/// at least (99 % of 3796 answers of cuBLASLt's heuristic that cut K have 16 or more, the shortest 8;
/// data/measurements/h200/pytorch/choices.csv.gz).
constexpr double kMostLaneSplits = 16, kMostTurns = 4, kLeastLaneSteps = 14;

class LanePlanner : public SplitOfTiles {
 public:
  explicit LanePlanner(const Context& context) : c(context) {}

  /// Of a ring's three steps one is multiplied. Two are on their way but while a CTA waits for its warps to be done
  /// with one: a step of CTAs that issue little takes 0.35 us (tiles of 32 x 32, 32 x 64, 64 x 64 on up to two thirds
  /// of their slots, H200, 2026-11-28).
  TileCosts costs(const LaneTile& w) const {
    constexpr double kStep = 8, kOnTheirWay = 1.75;
    TileCosts e = costs_of(c, w.shape, kStep, false);
    const double slots = kStep * (w.instructions + w.waits);
    e.fp32_clk = e.tensor_clk;
    e.tensor_clk = 0;
    // one warp alone issues once a clock, however many schedulers there are
    e.step_latency = std::max(c.rates.dram_latency / kOnTheirWay, kStep * (w.instructions + w.waits_alone) * c.clk);
    e.issue_clk = slots * w.shape.warps() / c.rates.gpu.sm.issue_per_clk;
    return e;
  }

  /// Parts that meet in the result: each adds its sums to those before it, in a launch that another one clears it for.
  Demand demand_in_place(const TileLayout& t, const WorkSplit& parts, Traffic traffic) const {
    // a CTA takes 2300 clocks more than one whose sums go to another launch (220 launches of training shapes, H200,
    // 2026-11-28)
    constexpr double kMeetClk = 2300;
    WorkSplit split = parts;
    split.second_launch = false;
    split.once_clk += kMeetClk;
    Demand d = demand(t, split, traffic);
    d.serial_latency += kClear;
    d.serial_latency_of = "to clear the result";
    return d;
  }

  /// CTAs of a last turn are dealt to slots that fall free together, two of them an SM, where others stay without one:
  /// with K whole (630 tiles of 128 x 64 take three turns of 264, not five CTAs an SM).
  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    Demand d = gemm::launch_demand(c, t, split, traffic);
    d.l2_limit = L2Limit::ports;
    const double slots = c.rates.sm_count * t.costs->resident;
    if (t.costs->resident == kPair && split.splits <= 1 && split.ctas > slots)
      d.plan.ctas = static_cast<std::int64_t>(slots * std::ceil(split.ctas / slots));
    return d;
  }

  /// A CTA reads its elements of one part after the other: 0.19 us a part (172 launches of training shapes, H200,
  /// 2026-11-28).
  Demand reduction(double splits) const {
    constexpr Seconds kPart = 0.19e-6 * units::s;
    Demand d = gemm::reduction_demand(c.task, c.rates, splits);
    d.serial_latency += splits * kPart;
    d.serial_latency_of = "to read one part after the other";
    return d;
  }

  GemmChoice answered(const TileLayout& t, const cublas::LaneAnswer& answer) const {
    const double parts = std::min<double>(answer.parts, t.k_steps);
    const WorkSplit split = SplitOfTiles::split(t, parts);
    GemmChoice out;
    out.plan = SplitOfTiles::plan(t, split);
    out.reduces = parts > 1 && !answer.in_place;
    out.main =
        parts > 1 && answer.in_place ? demand_in_place(t, split, Traffic::counted) : demand(t, split, Traffic::counted);
    out.total = price_total(out.main, c.rates, c.family, gemm::kNoAnswer);
    if (!out.reduces) return out;
    out.reduce = reduction(parts);
    out.total += price_total(out.reduce, c.rates, c.reduce, gemm::kNoAnswer) + c.rates.gap_graph;
    return out;
  }

 private:
  /// The memset's own time, a median of 220.
  static constexpr Seconds kClear = 1.25e-6 * units::s;
  static constexpr double kPair = 2;

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

bool cublas::runs_as_small_tf32(const GemmTask& t, const Rates& m) {
  // all of 313 answers with these kernels are of smaller results
  constexpr double kLargest = 128 * 8192;
  const bool was_asked = m.path.kind == TensorPath::Kind::wgmma && m.sm_count <= sms_of_asked_card();
  if (!was_asked || t.kind != GemmKind::dense || t.math != DType::tf32 || t.batch > 1 || t.weights_kn) return false;
  return t.m * t.n <= kLargest &&
         nearest_tile_answers(Lying::along_k, t.m, t.n, t.k, m.sm_count)[0]->tile >= kTilesOfHopper;
}

GemmChoice cublas::plan_small_tf32(const Context& c, GemmCache& cache) {
  const SmallTf32Planner planner(c);
  const std::vector<TileCosts>& menu = cache.state().menu(c.task, [&](std::vector<TileCosts>& tiles) {
    for (const SmallTf32Tile& w : kSmallTf32Tiles) tiles.push_back(planner.costs(w));
  });
  const int answer = nearest_tile_answers(Lying::along_k, c.task.m, c.task.n, c.task.k, c.rates.sm_count)[0]->tile;
  const auto taken = static_cast<std::size_t>(answer - kTilesOfHopper);
  gemm::Search<SmallTf32Planner> search(planner, c, cache);
  const TileLayout& layout = search.lay_out(menu[taken]);
  search.add(layout, planner.parts(layout, kSmallTf32Tiles[taken]));
  return search.run();
}

bool cublas::is_on_lanes(const GemmTask& t, const Rates& m) {
  return t.kind == GemmKind::dense && t.math == DType::fp32 && m.gpu.sm.tensor_flop_per_clk[DType::fp32] <= 0;
}

bool cublas::has_lanes_for_all(const Rates& m) {
  constexpr double kWarp = 32, kFlops = 2;
  return m.gpu.sm.fp32_flop_per_clk >= kFlops * kWarp * m.gpu.sm.issue_per_clk;
}

GemmChoice cublas::plan_lanes(const Context& c, GemmCache& cache) {
  const LanePlanner planner(c);
  const std::vector<TileCosts>& menu = cache.state().menu(c.task, [&](std::vector<TileCosts>& tiles) {
    for (const LaneTile& w : kLaneTiles) tiles.push_back(planner.costs(w));
  });
  // A card of Hopper was asked. What the library would answer for one with more SMs than it, nobody knows: that of fewer
  // tiles an SM jumps between kernels, and could make the larger card the slower one.
  const bool was_asked =
      c.rates.path.kind == TensorPath::Kind::wgmma && c.rates.sm_count <= cublas::sms_of_asked_card();
  if (was_asked && c.task.batch <= 1) {
    const cublas::LaneAnswer& answer = cublas::nearest_lane_answer(c.task.m, c.task.n, c.task.k, c.rates.sm_count);
    TileLayout layout(c, menu[answer.tile]);
    return planner.answered(layout, answer);
  }
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
