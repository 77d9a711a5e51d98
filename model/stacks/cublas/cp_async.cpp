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

bool in_pairs(const GemmTask& t) { return std::fmod(t.k, 2) == 0 && std::fmod(t.n, 2) == 0; }

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

  /// Rows that are no whole 16-byte units: pairs of elements by cp.async, single ones through registers. The load unit
  /// is busy 7 clocks with an instruction of 32 pairs or elements. Pairs: between 6, as products with a vocabulary of 30522 ask
  /// (nine launches of training iterations on an H200), and 8 (K of 700). Elements: six launches with a vocabulary of 50257. All
  /// of the training side.
  void adapt(TileLayout& t) const {
    constexpr double kWarp = 32, kPairClk = 7.3, kSingleClk = 7.1;
    if (c.path.kind != TensorPath::Kind::mma_sync || gemm::whole_units(c.task)) return;
    const bool pairs = in_pairs(c.task);
    const double piece = c.task.input_bytes * (pairs ? 2 : 1);
    t.pieces_clk += t.costs->stage_bytes / piece / kWarp * (pairs ? kPairClk : kSingleClk);
  }

  WorkSplit split(const TileLayout& t, double splits) const { return gemm::tiled(t, splits); }

  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    return gemm::launch_demand(c, t, split, traffic);
  }

  GemmPlan plan(const TileLayout& t, const WorkSplit& split) const { return gemm::plan_of(t, split); }

 private:
  const Context& c;
};

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
  // single elements along K on both sides: cuBLAS has no larger tile for them (vocabularies of 50257, each recorded launch)
  if (c.path.kind == TensorPath::Kind::mma_sync && !c.task.weights_kn && !gemm::whole_units(c.task) &&
      !in_pairs(c.task)) {
    std::vector<TileCosts> few;
    fill(few, kSingles);
    search.add_menu(few, splits);
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
