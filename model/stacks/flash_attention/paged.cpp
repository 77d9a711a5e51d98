#include "model/stacks/flash_attention/paged.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline::flash_attention {
namespace {

/// tile_size_fwd_sm90(), PagedKVNonTMA: pages of 16 to 64 tokens are shorter than any tile. Blocks of 8 bits of heads of 128 are
/// longer, and behind windows those of heads of 64 shorter than the published source's 160 keys, of 256 longer than its 64: of 64
/// to 256 keys the training rows of an H200 want these (windows of 64 and 128: mean errors of 2.5 and 3.4 %, where 160 keys give 6
/// and more).
PagedTile tile_16bit(const PagedQuestion& q) {
  if (q.width <= 64) return {192, q.windowed ? 160.0 : 128.0};
  if (q.width <= 96) return {192, 128};
  if (q.width <= 128) return {128, 128};
  if (q.width <= 192) return {128, 96};
  return {128, q.windowed ? 64.0 : 80.0};
}
PagedTile tile_8bit(const PagedQuestion& q) {
  if (q.width <= 64) return {192, q.windowed ? 128.0 : 160.0};
  if (q.width <= 96) return {192, 128};
  if (q.width <= 128) return {128, 192};
  if (q.width <= 192) return {128, q.windowed ? 128.0 : 160.0};
  return {128, 128};
}

/// num_splits_heuristic() of hopper/heuristics.h.
double most_parts(double row_tiles, double blocks, double sm_count) {
  constexpr double kFull = 0.8, kMost = 128, kShort = 4, kFewTiles = 32, kShortPart = 0.85, kGoodEnough = 0.95;
  if (row_tiles >= kFull * sm_count || blocks <= kShort) return 1;
  if (blocks <= 2 * kShort && row_tiles >= kFewTiles) return 1;
  const double most = std::min({kMost, sm_count, blocks});
  const auto filled = [&](double parts) {
    const double waves = row_tiles * parts / sm_count, whole = waves / std::ceil(waves);
    return std::floor(blocks / parts) < kShort ? kShortPart * whole : whole;
  };
  double best = 0;
  for (double parts = 1; parts <= most; ++parts) best = std::max(best, filled(parts));
  for (double parts = 1; parts <= most; ++parts) {
    if (filled(parts) >= kGoodEnough * best) return parts;
  }
  return 1;
}

}  // namespace

PagedTile paged_tile(const PagedQuestion& q) {
  constexpr double kWarpgroupRows = 64;
  PagedTile tile = q.narrow ? tile_8bit(q) : tile_16bit(q);
  const bool compiled = q.width == q.v_width && (q.width == 64 || q.width == 128);
  tile.one_warpgroup = compiled && !q.windowed && q.queries <= kWarpgroupRows;
  if (!tile.one_warpgroup) return tile;
  tile.rows = kWarpgroupRows;
  if (q.width == 64 && !q.narrow) tile.keys = 192;
  if (q.narrow) tile.keys = 160;
  return tile;
}

double paged_parts(const PagedWork& w, double sm_count) {
  // VLLM_FLASH_ATTN_MAX_NUM_SPLITS_FOR_CUDA_GRAPH, of steps of one token in graphs of at most so many tokens
  // (vllm/v1/attention/backends/flash_attn.py)
  constexpr double kGraphParts = 32, kGraphTokens = 512, kMargin = 1.1;
  if (w.sequences > kMostPrepared) return 1;
  const bool in_graph = w.queries_a_step == 1 && w.tokens <= kGraphTokens;
  const double most = in_graph ? kGraphParts : most_parts(w.kv_heads * w.row_tiles, w.blocks_loaded, sm_count);
  if (most <= 1) return 1;
  const double of_an_sm = std::ceil(w.sequences * w.row_tiles * w.blocks * kMargin * w.kv_heads / sm_count);
  return std::clamp(ceil_div(w.blocks, of_an_sm), 1.0, most);
}

Seconds walk_over_sequences(double sequences, const Rates& m) {
  constexpr double kLanes = 31;  // one of 32 holds the sum of the others
  const double loads = sequences > kMostPrepared ? 1 : 2;
  return ceil_div(sequences, kLanes) * loads * m.l2_mean_latency();
}

double keys_seen(double cached, double window) {
  const bool hides = window > 0 && window <= cached;
  return hides ? window : cached + 1;
}

double visible_blocks(double cached, double window, double keys) { return ceil_div(keys_seen(cached, window), keys); }

double compiled_width(std::int64_t width) {
  const auto w = static_cast<double>(width);
  for (const double compiled : {64.0, 96.0, 128.0, 192.0, 256.0}) {
    if (w <= compiled) return compiled;
  }
  return ceil_div(w, 64) * 64;
}

double width_in_64s(std::int64_t width) { return 64 * std::max(1.0, std::ceil(static_cast<double>(width) / 64)); }

DType multiplied(DType type, DType kv_type, const Rates& m) {
  const bool takes = m.path.kind == TensorPath::Kind::wgmma && m.gpu.sm.tensor_flop_per_clk[DType::fp8] > 0;
  return takes && kv_type == DType::fp8 ? DType::fp8 : type;
}

double not_overlapped_clk(const Demand& d, const PagedQuestion& q) {
  constexpr double kWidestOverlapped = 192, kBesideOthers = 0.4;
  const double all = d.sfu_clk + d.fp32_clk + d.tensor_clk * q.width / (q.width + q.v_width);
  if (q.narrow && q.width > kWidestOverlapped) return all;
  const bool in_turn = q.windowed && (q.narrow || q.width <= 64);
  return in_turn ? kBesideOthers * all : 0;
}

double paged_chain_clk(double keys, double qk_dim, double v_dim, bool narrow, double step_clk, double filled) {
  constexpr double kTransposed = 1.0 / 3;  // of a byte's time
  constexpr double kNarrowBytes = 32 * 1024, kWideBytes = 64 * 1024;
  constexpr double kNarrowLatency = 6 * 1024, kWideLatency = 84 * 1024;  // as bytes: what the first row takes to come
  const double whole = narrow ? kTransposed : 0;
  const double bytes = block_bytes(keys, qk_dim, v_dim, narrow ? 1 : 2) * (whole + (1 - whole) * filled);
  if (narrow) return step_clk * (bytes + kNarrowLatency) / (kNarrowBytes + kNarrowLatency);
  return step_clk * (bytes + kWideLatency) / (kWideBytes + kWideLatency);
}

double crowded_clk(const PagedTile& tile, const PagedQuestion& q) {
  constexpr double kNarrow128 = 3000;
  return q.narrow && q.width == 128 && !tile.one_warpgroup ? kNarrow128 : 0;
}

double masked_clk(double queries, const PagedTile& tile, const PagedQuestion& q, double visited, const Rates& m) {
  constexpr double kMaskOps =
      10;  // a score: its query among packed heads, row and column numbers, two compares, a select
  const double crossed = 1 + std::max(0.0, queries - 1) / tile.keys;
  const double masked = std::min(visited, q.windowed ? 2 * crossed : crossed);
  return masked * kMaskOps * tile.rows * tile.keys / (m.gpu.sm.fp32_flop_per_clk / 2);
}

double block_bytes(double keys, double qk_dim, double v_dim, double element_bytes) {
  constexpr double kOddRow = 192, kItsPlace = 256;
  const auto row = [&](double dim) { return dim * element_bytes == kOddRow ? kItsPlace : dim * element_bytes; };
  return keys * (row(qk_dim) + row(v_dim));
}

}  // namespace plumbline::flash_attention
