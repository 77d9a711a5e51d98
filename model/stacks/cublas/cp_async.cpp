#include "model/stacks/cublas/cp_async.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <span>
#include <vector>

#include "model/stacks/common/gemm_search.hpp"
#include "model/stacks/common/mma_registers.hpp"
#include "model/stacks/cublas/pieces.hpp"

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

/// Lanes of an A100 beside them ("ampere_sgemm_32x32_sliced1x4_tn").
constexpr std::array<Tile, 1> kSmallLaneTile{{{32, 32}}};

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

/// fp32 on lanes where a library's own kernels for them are not on file: steps of 8 columns and sides of 32 at least, as all names
/// in published rows have them (volta_sgemm_128x128_tn, 64x64_nn, 32x128_nn, 32x32_sliced1x4_tn; ampere_sgemm_...).
bool on_lanes(const Context& c) {
  return c.task.math == DType::fp32 && c.rates.gpu.sm.tensor_flop_per_clk[DType::fp32] <= 0;
}

/// Several products at once have fewer kernels still, however many of a tile's rows and columns are outside: one on an A100 (512 of
/// 512 published names), 64 x 64 and 32 x 128 on a V100 (197 of 198).
bool has_lane_tile(const Context& c, Tile tile) {
  constexpr int kLeastSide = 32, kSquare = 128, kSmall = 64;
  const int least = std::min(tile.rows, tile.cols), most = std::max(tile.rows, tile.cols);
  if (c.task.batch <= 1) return least >= kLeastSide && (!c.path.async_copy || most <= kSquare);
  if (c.path.async_copy) return least == kSquare && most == kSquare;
  return (least == kSmall && most == kSmall) || (least == kLeastSide && most == kSquare);
}

/// Lanes take operands from shared memory by columns of K. Those whose rows lie along K come there word by word (cp.async of four
/// bytes), each of the four words that meet in a bank by itself, and lanes do not multiply meanwhile: with 4.2 clocks for the 32
/// words of a warp (4.2 to 4.7 wavefronts counted on an H200, pieces.cpp; not fitted here) 128 clocks of a column in tiles of
/// 128 x 64 are 153, 64 of 64 x 64 are 81, 16 of 32 x 32 are 24. Kernels of those names keep an A100's lanes busy for 0.84, 0.80 and
/// 0.67 of the time where they run long (NeuSight's training rows, single products, "tn"). To the one of several products the
/// weights come as they lie ("nn"). Why copies and products do not overlap was not found; on cards without cp.async they do.
double turned_clk(const Context& c, const TileCosts& e) {
  constexpr double kWarp = 32, kWordsClk = 4.2;
  if (!c.path.async_copy) return 0;
  const bool weights_lie = c.task.weights_kn || c.task.batch > 1;
  const double turned = (c.task.inputs_km ? 0 : e.tile_m) + (weights_lie ? 0 : e.tile_n);
  return turned * e.tile_k / kWarp * kWordsClk;
}

/// Cards without cp.async (Volta, Turing): the step to come waits in registers while one is multiplied, so that no more than one is
/// on its way, of 32 columns of halves; sides of tiles are 64 and more (CUTLASS, generator.py, sm_70 and sm_75: two stages of 32
/// along K). Rows of 16 bits in pieces have a rule of their own (adapt()).
bool waits_in_registers(const Context& c) {
  const bool by_mma_sync = c.rates.gpu.sm.matrix_unit == MatrixUnit::mma_sync;
  return by_mma_sync && !c.rates.path.async_copy && (on_lanes(c) || !cublas::in_pieces(c));
}

bool has_tile_of_registers(const Context& c, Tile tile) {
  constexpr int kLeastSide = 64;
  return on_lanes(c) || std::min(tile.rows, tile.cols) >= kLeastSide;
}

class CpAsyncPlanner {
 public:
  explicit CpAsyncPlanner(const Context& context) : c(context) {
    if (cublas::in_pieces(c)) requests_ = cublas::requests_of(c);
  }

  /// As many stages as shared memory gives to as many CTAs as their accumulators leave room for.
  TileCosts costs(Tile tile, bool swapped) const {
    constexpr double kLaneStep = 8;
    const double tensor_step = (waits_in_registers(c) ? 0.5 : 1) * gemm::step_of(c.task);
    TileCosts e = gemm::tile_costs(c, tile, on_lanes(c) ? kLaneStep : tensor_step, swapped);
    const double accumulators = static_cast<double>(tile.rows) * tile.cols;
    const double room = std::floor(0.5 * static_cast<double>(c.rates.gpu.sm.registers) / accumulators);
    constexpr double kLeastStages = 4;
    e.resident = std::clamp(std::min(room, std::floor(c.smem / (kLeastStages * e.stage_bytes))), 1.0, c.path.most_ctas);
    e.stages = std::clamp(std::floor(c.smem / (e.resident * e.stage_bytes)), 2.0, c.path.most_stages);
    // whose next step waits in registers; larger tiles than 128 x 128 leave none for a second CTA
    if (cublas::through_registers(c)) {
      constexpr double kPair = 2;
      e.resident = std::clamp(room, 1.0, kPair);
      e.stages = 2;
    }
    e.step_latency = c.rates.dram_latency / (waits_in_registers(c) ? 1 : e.stages);
    // a CTA has a warp for each scheduler, of 32 columns and all rows, which unpacks weights and then multiplies them
    // (TensorRT-LLM, cutlass_heuristic.cpp and dq_mma_multistage_percol.h)
    e.tensor_clk += e.issue_clk;
    if (on_lanes(c)) e.tensor_clk += turned_clk(c, e);
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

  /// What passes through registers is stored once all of a step has come: memory's latency, and half of what the SM's CTAs ask for
  /// before it (by the training side of products_ragged; 2 x 160 requests of a step of 64 x 64 took 2,100 to 2,760 clocks).
  void adapt(TileLayout& t) const {
    if (!cublas::in_pieces(c)) return;
    t.pieces_clk += cublas::pieces_clk(c, t, requests_);
    constexpr double kBefore = 0.5;
    if (cublas::through_registers(c))
      t.step_latency = c.rates.dram_latency + kBefore * t.costs->resident * t.pieces_clk * c.clk;
  }

  WorkSplit split(const TileLayout& t, double splits) const {
    WorkSplit s = gemm::tiled(t, splits);
    if (cublas::in_pieces(c)) s.once_clk += cublas::stored_pieces_clk(c.task, *t.costs);
    return s;
  }

  Demand demand(const TileLayout& t, const WorkSplit& split, Traffic traffic) const {
    Demand d = gemm::launch_demand(c, t, split, traffic);
    if (cublas::in_pieces(c) && c.task.math == DType::tf32) {
      const double flop = 2.0 * c.task.batch * c.task.m * c.task.n * c.task.k / (split.ctas * split.steps);
      d.smem_hidden_clk += flop * kMmaRegisterBytesTf32 / c.smem_port;
    }
    return d;
  }

  GemmPlan plan(const TileLayout& t, const WorkSplit& split) const { return gemm::plan_of(t, split); }

 private:
  const Context& c;
  cublas::PieceRequests requests_;
};

/// Kernels of single elements have 64 x 64 and larger tiles; up to four rows run on lanes ("gemmSN"), which takes
/// within a third what a narrower tile would (56 launches).
void add_pieces(const std::vector<TileCosts>& menu, const Context& c, std::span<const double> some_splits,
                Search<CpAsyncPlanner>& search) {
  constexpr int kNarrow = 64;
  constexpr double kOnLanes = 4;
  const int least = cublas::in_pairs(c.task) || c.task.m <= kOnLanes ? 1 : kNarrow;
  for (const TileCosts& e : menu) {
    if (std::min(e.tile.rows, e.tile.cols) < least || !gemm::fits(e, c.smem)) continue;
    if (on_lanes(c) && !has_lane_tile(c, e.tile)) continue;
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
  whole_k = whole_k || (on_lanes(c) && c.task.batch > 1);  // no published name of several products cuts it
  const std::span<const double> splits = whole_k ? std::span(kSplits).first(1) : kSplits;
  const CpAsyncPlanner planner(c);
  const auto fill_from = [&](std::span<const Tile> list, std::vector<TileCosts>& tiles, int most) {
    for (const Tile tile : list) {
      if (tile.rows * tile.cols > most) continue;
      if (waits_in_registers(c) && !has_tile_of_registers(c, tile)) continue;
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
  if (cublas::in_pieces(c)) {
    std::vector<TileCosts> few;
    fill(few, (cublas::through_registers(c) && !c.task.weights_kn) || c.task.dequant_per_weight > 0 ? kSingles : kAny);
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
    if (on_lanes(c) && c.path.async_copy) fill_from(kSmallLaneTile, tiles, most);
  });
  std::vector<TileCosts> of_lanes;
  if (on_lanes(c)) {
    const auto runs = [&](const TileCosts& e) { return has_lane_tile(c, e.tile); };
    std::copy_if(menu.begin(), menu.end(), std::back_inserter(of_lanes), runs);
    search.add_menu(of_lanes, splits);
    return search.run();
  }
  search.add_menu(menu, splits);
  return search.run();
}

}  // namespace plumbline
