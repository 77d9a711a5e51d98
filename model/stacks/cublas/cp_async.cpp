#include "model/stacks/cublas/cp_async.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "model/stacks/common/gemm_search.hpp"

namespace plumbline {
namespace {

using gemm::Context;
using gemm::Search;
using gemm::Tile;
using gemm::TileCosts;
using gemm::TileLayout;
using gemm::Traffic;
using gemm::WorkSplit;

/// Tile menu: powers of two, as the names of cuBLAS's kernels for sm_80 have them (ampere_bf16_s16816gemm_bf16_128x256_..._64x3,
/// 128x128_..._32x5, ...; CUTLASS's generator lists the same for sm_80 and what came after it). Large tiles first: they are
/// usually right, and a good first candidate prunes the rest.
constexpr std::array<Tile, 12> kTiles{{{128, 256},
                                       {256, 128},
                                       {128, 128},
                                       {64, 256},
                                       {256, 64},
                                       {128, 64},
                                       {64, 128},
                                       {64, 64},
                                       {64, 32},
                                       {64, 16},
                                       {128, 32},
                                       {128, 16}}};
constexpr std::array<double, 10> kSplits{1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
/// Where rows come in pieces a part of K is worth little beside its steps, so that it is cut until turns are full (48
/// tiles in 11 parts are four turns of an H200's SMs, in 19 seven), at most into what launches were seen to have.
constexpr std::array<double, 16> kSplitsOfPieces{1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 19, 22, 27, 32, 44};
constexpr double kMostTurnsOfPieces = 8;

/// On SMs of 100 KB beside them those of its kernels called xmma (sm80_xmma_gemm_..._tilesize96x128x32_stage4, 160x128x32,
/// 192x128x32 in published traces), half as wide ones too. Rows of an RTX A6000 ask for them; an A100's, whose scalars were
/// found with the tiles above, refuse them (held out 4.4 -> 5.8 %).
constexpr std::array<Tile, 8> kTilesOfSmallSms{
    {{160, 128}, {128, 160}, {96, 128}, {128, 96}, {192, 128}, {128, 192}, {96, 64}, {64, 96}}};

/// sm_120: tensor maps feed mma.sync, in kernels whose tiles are to measure as Hopper's are, an even number of eights wide. (Names
/// of its kernels in published traces, nvjet_sm120_tst_mma_128x256x64_2, 128x176x64, 256x112x64_2, 64x64x128_3, 64x32x64_8,
/// 128x8x32: tile and stages. 256x160x32_3, in steps half as long, is left out. No time of theirs was looked at.)
constexpr std::array<std::int16_t, 3> kMapRows{128, 256, 64};
constexpr int kMapWidthStep = 16, kMapWidest = 256, kMapSums = 128 * 256;

bool feeds_by_maps(const Context& c) {
  return c.rates.path.kind == TensorPath::Kind::mma_sync && c.rates.gpu.sm.async_copy == AsyncCopy::tma &&
         gemm::whole_units(c.task) && c.task.dequant_per_weight == 0;
}

/// Rows that are no whole 16-byte units, which no kernel for tensor maps takes: pairs of elements where all rows have
/// an even number of them, else single ones. Of four bytes there are no pairs. (Names of 290 launches on an H200,
/// 2026-11-28: "align2" and "align1"; 50258 columns in tf32 "align1".)
bool in_pieces(const Context& c) { return c.path.kind == TensorPath::Kind::mma_sync && !gemm::whole_units(c.task); }

bool in_pairs(const GemmTask& t) {
  constexpr double kHalf = 2;
  return t.input_bytes <= kHalf && std::fmod(t.k, 2) == 0 && std::fmod(t.n, 2) == 0;
}

/// Of 16 bits and fewer no cp.async fetches one alone: kernels of sm_75, which pass them through registers.
bool through_registers(const Context& c) { return in_pieces(c) && !in_pairs(c.task) && c.task.input_bytes <= 2; }

class CpAsyncPlanner {
 public:
  explicit CpAsyncPlanner(const Context& context) : c(context) {}

  /// As many stages as shared memory gives to as many CTAs as their accumulators leave room for.
  TileCosts costs(Tile tile, bool swapped) const {
    TileCosts e = gemm::tile_costs(c, tile, gemm::step_of(c.task), swapped);
    const double accumulators = static_cast<double>(tile.rows) * tile.cols;
    const double room = std::floor(0.5 * static_cast<double>(c.rates.gpu.sm.registers) / accumulators);
    constexpr double kLeastStages = 4;
    e.resident = std::clamp(std::min(room, std::floor(c.smem / (kLeastStages * e.stage_bytes))), 1.0, c.path.most_ctas);
    e.stages = std::clamp(std::floor(c.smem / (e.resident * e.stage_bytes)), 2.0, c.path.most_stages);
    e.step_latency = c.rates.dram_latency / e.stages;
    // a CTA has a warp for each scheduler, of 32 columns and all rows, which unpacks weights and then multiplies them
    // (TensorRT-LLM, cutlass_heuristic.cpp and dq_mma_multistage_percol.h)
    e.tensor_clk += e.issue_clk;
    return e;
  }

  /// The same fed by tensor maps: a CTA has the SM for itself, as its stages fill the shared memory in all of the names
  /// (96 KiB of 99).
  TileCosts costs_by_maps(Tile tile, bool swapped) const {
    constexpr double kMostStages = 16;
    TileCosts e = gemm::tile_costs(c, tile, gemm::step_of(c.task), swapped);
    e.resident = 1;
    e.stages = std::clamp(std::floor(c.smem / e.stage_bytes), 2.0, kMostStages);
    e.step_latency = c.rates.dram_latency / e.stages;
    return e;
  }

  /// The load unit is busy so long with an instruction of 32 pieces.
  void adapt(TileLayout& t) const {
    if (in_pieces(c)) t.pieces_clk += t.costs->stage_bytes / piece() / kWarp * piece_clk();
  }

  /// The result leaves in pieces too, once a CTA.
  WorkSplit split(const TileLayout& t, double splits) const {
    WorkSplit s = gemm::tiled(t, splits);
    if (in_pieces(c))
      s.once_clk += t.costs->tile_m * t.costs->tile_n * c.task.input_bytes / piece() / kWarp * kStoreClk;
    return s;
  }

  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    return gemm::launch_demand(c, t, split, traffic);
  }

  GemmPlan plan(const TileLayout& t, const WorkSplit& split) const { return gemm::plan_of(t, split); }

 private:
  static constexpr double kWarp = 32;
  /// An instruction that stores as many pieces of the result.
  static constexpr double kStoreClk = 7;

  double piece() const { return c.task.input_bytes * (in_pairs(c.task) ? 2 : 1); }

  /// Set by hand on what launches take a step, tensor units and operands from shared memory beside it (H200, 2026-11-28,
  /// products_odd.csv.gz, both sides of the project's rule in view). Pairs of whole lines of 128 bytes take 8.9 to 9.1 us
  /// a step, others 10.1 to 10.4 (2048 rows, 16386 columns). Through registers, where rows of K on both sides are whole lines of 128 bytes, the lanes of
  /// an instruction that read several rows meet in the same banks of L1: K of 768, 832 and 896 take 23.4 us a step,
  /// 800 17.9, 770 17.4 (2048 rows, 16385 columns). Why fp32 elements along N take more than along K was not found,
  /// nor why tiles of 64 x 64 of few rows take half as much again.
  double piece_clk() const {
    constexpr double kPairClk = 7.3, kPairOfLinesClk = 5.8, kSingleClk = 6.8, kSameBanksClk = 8.3, kWordClk = 5.9,
                     kWordAcrossClk = 7.1, kLine = 128, kUnit = 16;
    const GemmTask& t = c.task;
    const bool lines = std::fmod(t.k * t.input_bytes, kLine) == 0;
    if (in_pairs(t)) return lines ? kPairOfLinesClk : kPairClk;
    if (!through_registers(c))
      return t.weights_kn && std::fmod(t.n * t.weight_bytes, kUnit) != 0 ? kWordAcrossClk : kWordClk;
    return !t.weights_kn && lines ? kSameBanksClk : kSingleClk;
  }

  const Context& c;
};

/// Kernels of single elements have 64 x 64 and larger tiles; up to four rows run on lanes ("gemmSN"), which takes
/// within a third what a narrower tile would (56 launches).
void add_pieces(const std::vector<TileCosts>& menu, const Context& c, std::span<const double> some_splits,
                Search<CpAsyncPlanner>& search) {
  constexpr int kNarrow = 64;
  constexpr double kOnLanes = 4;
  const int least = in_pairs(c.task) || c.task.m <= kOnLanes ? 1 : kNarrow;
  for (const TileCosts& e : menu) {
    if (std::min(e.tile.rows, e.tile.cols) < least || !gemm::fits(e, c.smem)) continue;
    const TileLayout& t = search.lay_out(e);
    const double slots = c.rates.sm_count * e.resident;
    for (const double splits : some_splits) {
      if (splits > 1 && (t.tiles * splits > kMostTurnsOfPieces * slots || t.k_steps < 2 * splits)) break;
      search.add(t, splits);
    }
  }
}

}  // namespace

bool cublas::has_small_sms(const Rates& m) {
  constexpr Bytes kRoomForFourStages = 128.0 * units::KiB;
  return m.path.kind == TensorPath::Kind::mma_sync && m.path.async_copy && m.gpu.sm.smem < kRoomForFourStages;
}

GemmChoice cublas::plan_cp_async(const Context& c, GemmCache& cache, bool whole_k) {
  const std::span<const double> splits = whole_k ? std::span(kSplits).first(1) : kSplits;
  const CpAsyncPlanner planner(c);
  const auto fill_from = [&](std::span<const Tile> list, std::vector<TileCosts>& tiles, int most) {
    for (const Tile tile : list) {
      if (tile.rows * tile.cols > most) continue;
      for (const bool swapped : {false, true}) tiles.push_back(planner.costs(tile, swapped));
    }
  };
  const auto fill = [&](std::vector<TileCosts>& tiles, int most) { fill_from(kTiles, tiles, most); };
  const auto fill_by_maps = [&](std::vector<TileCosts>& tiles) {
    for (const std::int16_t rows : kMapRows) {
      for (int width = kMapWidthStep; width <= kMapWidest && rows * width <= kMapSums; width += kMapWidthStep) {
        for (const bool swapped : {false, true})
          tiles.push_back(planner.costs_by_maps({rows, static_cast<std::int16_t>(width)}, swapped));
      }
    }
  };
  constexpr int kAny = 128 * 256, kSingles = 128 * 128;
  Search<CpAsyncPlanner> search(planner, c, cache);
  if (in_pieces(c)) {
    std::vector<TileCosts> few;
    fill(few, (through_registers(c) && !c.task.weights_kn) || c.task.dequant_per_weight > 0 ? kSingles : kAny);
    add_pieces(few, c, whole_k ? std::span(kSplitsOfPieces).first(1) : kSplitsOfPieces, search);
    if (search.empty()) search.add_menu(few, splits);
    return search.run();
  }
  // kernels that unpack weights in registers have none left for more: 128 x 128 at most (TensorRT-LLM, cutlass_heuristic.cpp:
  // weight-only tiles of 16 to 128 rows x 128), or 64 x 256 (Marlin, thread_m_blocks up to 4)
  const int most = c.task.dequant_per_weight > 0 && c.path.kind == TensorPath::Kind::mma_sync ? kSingles : kAny;
  const std::vector<TileCosts>& menu = cache.state().menu(c.task, [&](std::vector<TileCosts>& tiles) {
    fill(tiles, most);
    if (cublas::has_small_sms(c.rates)) fill_from(kTilesOfSmallSms, tiles, most);
    if (feeds_by_maps(c)) fill_by_maps(tiles);
  });
  search.add_menu(menu, splits);
  return search.run();
}

}  // namespace plumbline
