// Attention as FlashAttention runs it in vLLM and PyTorch: FA2 where tensor units take mma.sync, FA3 on wgmma, FA4 on
// tcgen05. Its tiles are the published sources' (hopper/tile_size.h, flash_fwd_launch_template.h); splits as their heuristics have
// them, within a step.
#include <algorithm>
#include <cmath>
#include <vector>

#include "model/engine/tensor_path.hpp"
#include "model/engine/timing.hpp"
#include "model/stacks/common/deal_in_order.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/flash_attention/paged.hpp"
#include "model/stacks/flash_attention/plan_attention.hpp"

namespace plumbline {

using flash_attention::compiled_width, flash_attention::width_in_64s, flash_attention::is_narrow,
    flash_attention::multiplied;

namespace {

bool is_fa3(const Rates& m) { return m.path.kind != TensorPath::Kind::mma_sync; }

constexpr double kRows = 128;  // of a tile of scores

bool is_fa4(const Rates& m) { return m.path.kind == TensorPath::Kind::tcgen05; }

/// Two tiles of a CTA that take turns, on tcgen05: the softmax of one is hidden behind the products of the other.
double tiles_in_turn(const AttentionPrefill& s, double keys, double v_dim, double packed, const Rates& m) {
  const bool two = m.path.kind == TensorPath::Kind::tcgen05 &&
                   two_tiles_in_tensor_memory(keys, v_dim, static_cast<double>(s.q_len) * packed);
  return two ? 2 : 1;
}

bool has_fa3_tiles(const PrefillCut& cut, const Rates& m) {
  return cut.tiles_by_mask && m.path.kind == TensorPath::Kind::wgmma;
}

/// FA3 packs the query heads of a KV head into one tile where few queries would leave most of its rows empty
/// (hopper/heuristics.h, should_pack_gqa()).
double packed_heads(const AttentionPrefill& s, double tile, const PrefillCut& cut, const Rates& m) {
  const double group = static_cast<double>(s.q_heads) / static_cast<double>(s.kv_heads);
  const auto filled = [tile](double rows) { return rows / (ceil_div(rows, tile) * tile); };
  const double queries = static_cast<double>(s.q_len);
  constexpr double kWorthIt = 0.9;
  if (!cut.packs_heads || !is_fa3(m)) return 1;
  const bool short_of_a_tile = has_fa3_tiles(cut, m) && queries <= tile;
  return short_of_a_tile || filled(queries) < kWorthIt * filled(queries * group) ? group : 1;
}

struct ScoreTile {
  double rows = 0, keys = 0;
};

/// What FA3 chooses a tile by: heads' widths as compiled, masks, and whether keys lie in pages that are shorter than a tile
/// (caches do: vLLM's have 16 to 64 tokens).
struct TileQuestion {
  double width = 0, v_width = 0;
  bool causal = false, windowed = false, paged = false;
  bool one_warpgroup = false;  ///< all queries of a KV head fit in 64 rows
};

TileQuestion tile_question(const AttentionPrefill& s, double qk_dim, double v_dim, bool contiguous) {
  constexpr std::int64_t kOneWarpgroup = 64;
  TileQuestion t{.width = std::max(qk_dim, v_dim), .v_width = v_dim};
  t.windowed = s.window > 0 && s.window < s.kv_len;
  t.causal = s.causal && !t.windowed;
  t.paged = s.causal && !contiguous;
  const bool fits = s.q_len * (s.q_heads / s.kv_heads) <= kOneWarpgroup;
  t.one_warpgroup = fits && qk_dim == v_dim && (qk_dim == 64 || qk_dim == 128);
  return t;
}

/// FA3's tiles of scores (hopper/tile_size.h, tile_size_fwd_sm90()).
ScoreTile tile_16bit(const TileQuestion& t) {
  const bool shorter = t.windowed || t.paged;
  if (t.width <= 64) {
    if (t.one_warpgroup) return {64, 192};
    return {192, t.causal ? 128.0 : shorter ? 160.0 : 192.0};
  }
  if (t.width <= 96) return {192, shorter ? 128.0 : 144.0};
  if (t.width <= 128) return {t.one_warpgroup ? 64.0 : 128.0, shorter || t.causal ? 128.0 : 176.0};
  if (t.width <= 192) return {128, shorter ? 96.0 : t.v_width <= 128 ? 128.0 : 112.0};
  return {128, t.windowed ? 64.0 : 80.0};
}
ScoreTile tile_8bit(const TileQuestion& t) {
  if (t.width <= 64) return {192, 160};
  if (t.width <= 96) return {192, 128};
  if (t.width <= 128) return {128, t.paged ? 160.0 : 224.0};
  if (t.width <= 192) return {128, t.windowed ? 128.0 : 160.0};
  return {128, t.windowed ? 64.0 : 128.0};
}

ScoreTile score_tile(const AttentionPrefill& s, double qk_dim, double v_dim, const PrefillCut& cut, const Rates& m) {
  const TileQuestion t = tile_question(s, qk_dim, v_dim, cut.contiguous);
  if (has_fa3_tiles(cut, m)) return bits(s.dtype) <= 8 ? tile_8bit(t) : tile_16bit(t);
  if (is_fa4(m)) return {kRows, 128};  // (flash_attn/cute/interface.py)
  if (cut.dealt) return {kRows, 128};  // cuDNN's, of all widths, by their names
  if (is_fa3(m)) return {kRows, t.width <= 128 ? 128.0 : t.width <= 192 ? 96.0 : 64.0};
  return {kRows, t.width <= 64 ? 128.0 : 64.0};
}

/// wgmma takes 8-bit values along the keys alone: a warpgroup copies keys and values page by page and transposes the values
/// in shared memory, beside the products. Its chain grows with a block's bytes; the scalar is that of 32 KiB.
void transpose_demand(Demand& d, double keys, double qk_dim, double v_dim, const Rates& m,
                      const FamilyScalars& family) {
  constexpr double kReferenceBytes = 32 * 1024;
  d.smem_clk += 2 * keys * v_dim / m.gpu.sm.smem_bytes_per_clk.in(units::B);
  d.step_latency = family.step_clk * keys * (qk_dim + v_dim) / kReferenceBytes / m.clock;
}

/// Of tcgen05's exponentials a share is a polynomial on ordinary lanes: of each 16 pairs 4, but in the last quarter of a row
/// of 128. Nine operations each (clamp, round, back, fraction, a polynomial of three, two of integers), the floating-point ones
/// two numbers an instruction; none where the unit for them is twice as fast (Blackwell Ultra).
/// (FlashAttention-4, softmax.py, apply_exp2_convert(): ex2_emu_freq, ex2_emu_res; utils.py, ex2_emulation_2().)
void emulate_exponentials(Demand& d, double scores, const Rates& m) {
  constexpr double kShare = 4.0 / 16.0 * 3.0 / 4.0, kFloats = 7, kIntegers = 2, kSlowUnit = 16;
  if (m.gpu.sm.sfu_op_per_clk > kSlowUnit) return;
  d.sfu_clk *= 1 - kShare;
  const double replaced = kShare * scores, instructions = kFloats / 2 + kIntegers - 1;
  d.fp32_clk += replaced * (kFloats + kIntegers) / (m.gpu.sm.fp32_flop_per_clk / 2);
  d.issue_clk += replaced * instructions / static_cast<double>(m.gpu.sm.warp_size) / m.gpu.sm.issue_per_clk;
}

/// A block of keys beside so many tiles of queries in turn.
struct KeyBlock {
  double tiles = 1;
  ScoreTile tile{};
  double qk_dim = 0, v_dim = 0;
};

/// As the TensorRT-LLM kernels' (trtllm/plan_prefill.cpp): each warpgroup, or warp of 16 rows, reads the keys
/// itself.
void block_demand(Demand& d, const KeyBlock& block, const AttentionPrefill& s, const Rates& m,
                  const FamilyScalars& family) {
  const auto& [tiles, tile, qk_dim, v_dim] = block;
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double flop_per_clk = sm.tensor_flop_per_clk[s.dtype];
  const double es = bytes_of(s.dtype), kv_es = bytes_of(s.kv_dtype), width = qk_dim + v_dim;
  const double rows = tiles * tile.rows, keys = tile.keys;
  score_demand(d, {rows, keys, qk_dim, v_dim}, flop_per_clk, kv_es, m, softmax_cost(m));
  // FA4 rescales results only where a maximum has grown 256-fold (softmax.py, SoftmaxSm100: rescale_threshold)
  if (!is_fa4(m)) d.fp32_clk += rows * v_dim / (sm.fp32_flop_per_clk / 2);
  const double group = m.path.kind == TensorPath::Kind::tcgen05 ? kRows : is_fa3(m) ? 64 : 32;
  const double queries = is_fa3(m) ? rows * qk_dim : 0;
  const bool pairs = is_fa4(m) && two_blocks_in_tensor_memory(keys, v_dim);
  const double here = keys * width / (pairs ? 2 : 1);  // keys and values of this SM
  const double read = (queries + rows / group * here) * es;
  d.smem_clk = (read + here * kv_es) / sm.smem_bytes_per_clk.in(units::B);
  if (pairs) d.l2 = here * kv_es * units::B;
  d.exposed_clk = tiles > 1 || pairs ? 0 : family.step_clk;
  if (is_fa4(m)) emulate_exponentials(d, rows * keys, m);
}

/// New keys and values to the cache, a CTA for each token.
Demand append_demand(const AttentionPrefill& s, const FamilyScalars& family) {
  const double tokens = static_cast<double>(s.batch * s.q_len);
  const double new_kv = tokens * static_cast<double>(s.kv_heads * (s.qk_dim + s.v_dim));
  Demand p;
  p.dram_read = new_kv * bytes_of(s.dtype) * units::B;
  p.dram_write = new_kv * bytes_of(s.kv_dtype) * units::B;
  p.plan.ctas = s.batch * s.q_len;
  p.plan.ctas_per_sm = 8;
  p.plan.threads = 256;
  p.once_clk = family.start_clk / static_cast<double>(p.plan.ctas_per_sm);
  return p;
}

/// Parts that the keys of encoders are cut into, sequences of a batch laid end to end: by the rule that prompts over caches go by, too.
double encoder_parts(const AttentionPrefill& s, const ScoreTile& tile, const BlockCount& blocks, const Rates& m) {
  flash_attention::PagedWork work{.sequences = static_cast<double>(s.batch),
                                  .kv_heads = static_cast<double>(s.kv_heads)};
  work.queries_a_step = static_cast<double>(s.q_len);
  work.row_tiles = blocks.tiles;
  work.blocks = ceil_div(static_cast<double>(s.kv_len), tile.keys);
  work.blocks_loaded = blocks.longest;
  work.tokens = work.sequences * work.queries_a_step;
  return flash_attention::paged_parts(work, m.sm_count);
}

/// Blocks of keys that each tile of queries visits, from the first tile on; behind a window the mean of all.
std::vector<double> blocks_of_tiles(const AttentionPrefill& s, const ScoreTile& tile, const BlockCount& blocks) {
  constexpr double kMostApart = 4096;
  const double queries = static_cast<double>(s.q_len), keys = static_cast<double>(s.kv_len);
  const bool windowed = s.window > 0 && s.window < s.kv_len;
  if (!s.causal || windowed || blocks.tiles > kMostApart) {
    const double tiles = std::min(blocks.tiles, kMostApart);
    return std::vector<double>(static_cast<std::size_t>(tiles), blocks.total / tiles);
  }
  std::vector<double> steps;
  for (double i = 1; i <= blocks.tiles; ++i) {
    steps.push_back(ceil_div(keys - queries + std::min(i * tile.rows, queries), tile.keys));
  }
  return steps;
}

/// Clocks until a tile's queries and first keys have come, where shared memory has no room for them beside those of the tile before:
/// its queries, and two blocks of keys and values.
double tile_loads_clk(const ScoreTile& tile, double qk_dim, double v_dim, double element, const Rates& m) {
  const double queries = tile.rows * qk_dim * element, keys = tile.keys * (qk_dim + v_dim) * element;
  if (2 * queries + 2 * keys <= m.gpu.sm.smem_per_block.in(units::B)) return 0;
  const Bytes first = (queries + tile.keys * qk_dim * element) * units::B;
  return (first / m.l2_per_sm).in(units::s)*m.clock.in(units::Hz);
}

void deal_tiles(Demand& d, const std::vector<double>& blocks_of_tiles, double heads, const Rates& m) {
  const double step_clk = step_alone_clk(d);
  const DealtInOrder dealt = deal_in_order(heads, blocks_of_tiles, d.once_clk / step_clk, m.sm_count);
  d.plan.ctas = static_cast<std::int64_t>(dealt.ctas);
  d.plan.steps = dealt.mean;
  d.plan.longest = dealt.steps;
  d.plan.shortest_first = true;  // nothing more is dealt out
  d.dealt_clk = dealt.steps * step_clk + dealt.items * d.once_clk;
  d.exposed_clk = d.once_clk = 0;
  d.overlap = kBesideTheChain;
  clear_counter(d, m);
}

/// Rows of scores that a CTA works on for `rows` packed queries: FA3's tiles are of 64 rows, a warpgroup's, or 128, whatever
/// of them is empty; a warp takes 16 at a time elsewhere.
double score_rows(double rows, double qk_dim, double v_dim, bool whole_tiles) {
  constexpr double kWarpRows = 16, kWarpgroupRows = 64;
  if (!whole_tiles) return ceil_div(rows, kWarpRows) * kWarpRows;
  const bool one_warpgroup = rows <= kWarpgroupRows && qk_dim == v_dim && (qk_dim == 64 || qk_dim == 128);
  return one_warpgroup ? kWarpgroupRows : ceil_div(rows, kRows) * kRows;
}

}  // namespace

AttentionChoice plan_flash_prefill(const AttentionPrefill& asked, bool appends, const Rates& m,
                                   std::span<const FamilyScalars> families, const PrefillCut& cut) {
  if (asked.causal && cut.paged_family != 0 && has_fa3_tiles(cut, m)) {
    return plan_paged_prefill(asked, appends, m, families, cut);
  }
  AttentionChoice c;
  AttentionPrefill s = asked;
  if (cut.narrow_family != 0) s.dtype = multiplied(asked.dtype, asked.kv_dtype, m);
  c.math = s.dtype;
  const bool narrow = cut.narrow_family != 0 && is_narrow(s.dtype) && m.path.kind == TensorPath::Kind::wgmma;
  c.family = &families[narrow ? cut.narrow_family : cut.family];
  const auto compiled = cut.widths_in_64s ? width_in_64s : compiled_width;
  const double qk_dim = compiled(s.qk_dim), v_dim = compiled(s.v_dim);
  const ScoreTile tile = score_tile(s, qk_dim, v_dim, cut, m);
  const double keys = tile.keys, packed = packed_heads(s, tile.rows, cut, m);
  const double tiles = tiles_in_turn(s, keys, v_dim, packed, m), rows = tiles * tile.rows;
  c.plan.q_tile = static_cast<std::int64_t>(rows);
  c.plan.kv_tile = static_cast<std::int64_t>(keys);
  c.plan.packed_heads = static_cast<std::int64_t>(packed);
  const BlockCount blocks = visited_blocks(s, rows / packed, keys);
  Demand& d = c.main;
  const double heads = static_cast<double>(s.batch * s.q_heads) / packed;
  d.plan.ctas = static_cast<std::int64_t>(heads * blocks.tiles);
  d.plan.ctas_per_sm = is_fa3(m) ? 1 : 2;
  d.plan.threads = is_fa3(m) ? static_cast<std::int64_t>(2 * tile.rows) + 128 : 128;
  d.plan.shortest_first = !is_fa3(m) || !cut.longest_first;  // FA3's scheduler deals the longest tiles first
  d.plan.steps = blocks.total / blocks.tiles;
  d.plan.longest = blocks.longest;
  block_demand(d, {tiles, tile, qk_dim, v_dim}, s, m, families[cut.family]);
  // FA3's tiles differ in size: what of a block's softmax is not hidden goes with its scores
  constexpr double kReferenceScores = 128.0 * 128.0;
  if (has_fa3_tiles(cut, m)) d.exposed_clk *= tile.rows * keys / kReferenceScores;
  if (narrow) transpose_demand(d, keys, qk_dim, v_dim, m, *c.family);
  d.once_clk = masked_blocks(s, rows / packed, keys, d.plan.steps) * mask_clk(rows * keys, m) + c.family->start_clk;
  if (cut.dealt && is_fa3(m)) {
    d.once_clk += tile_loads_clk(tile, qk_dim, v_dim, bytes_of(s.dtype), m);
    if (!s.causal) d.exposed_clk += end_check_clk(s.kv_len, keys, rows * keys, m);
    deal_tiles(d, blocks_of_tiles(s, tile, blocks), heads, m);
    const double first = static_cast<double>(d.plan.ctas) * (tile.rows + keys) * qk_dim * bytes_of(s.dtype);
    d.start = dram_time(first * units::B, Bytes{}, m);  // all CTAs wait for their first queries and keys
  }
  prefill_traffic(d, s);
  d.dram_write = prefill_results(asked);
  if (!s.causal && !cut.contiguous && has_fa3_tiles(cut, m)) {
    c.combine_family = &families[flash_attention::kCombine];
    cut_prompt(c, s, encoder_parts(s, tile, blocks, m), m);
  }
  if (!appends) return c;
  c.prepares = true;
  c.prepare_family = &families[cut.write_family];
  c.prepare = cut.write_family == flash_attention::kAppend ? append_demand(asked, *c.prepare_family)
                                                           : cache_write_demand(asked, *c.prepare_family, m);
  return c;
}

AttentionChoice plan_flash_decode(const AttentionDecode& s, const Rates& m, std::span<const FamilyScalars> families,
                                  const KeyCutting& how, const DecodeCut& kernel) {
  if (kernel.paged_family != 0 && m.path.kind == TensorPath::Kind::wgmma) {
    return plan_paged_decode(s, m, families, how, kernel);
  }
  const DecodeTask t = decode_task(s);
  AttentionChoice c;
  c.math = s.dtype;
  c.family = &families[kernel.family];
  c.combine_family = &families[flash_attention::kCombine];
  constexpr double kBlock = 128, kStep = 64, kFull = 0.8, kMostSplits = 128;
  c.plan.kv_tile = static_cast<std::int64_t>(kStep);
  c.plan.packed_heads = static_cast<std::int64_t>(t.rows);
  // FA2 splits only where it has packed heads; neither does once four fifths of the SMs have a CTA
  const bool can_split = is_fa3(m) || t.rows > 1;
  const double blocks = kernel.whole_blocks ? std::floor(t.context / kBlock) : ceil_div(t.context, kBlock);
  const double most = can_split ? std::clamp(blocks, 1.0, kMostSplits) : 1;
  const double slots = m.sm_count * kernel.ctas_per_sm, parts = t.v_dim > kernel.widest ? 2 : 1;
  const double wanted = t.kv_sets < kFull * m.sm_count ? std::min(std::floor(slots / t.kv_sets), most) : 1;
  Demand& d = c.main;
  d.plan.ctas_per_sm = static_cast<std::int64_t>(kernel.ctas_per_sm);
  d.plan.threads = 256;
  const double rows = score_rows(t.rows, t.qk_dim, t.v_dim, kernel.whole_tiles && is_fa3(m));
  score_demand(d, {rows, kStep, t.qk_dim, t.v_dim}, m.gpu.sm.tensor_flop_per_clk[s.dtype],
               t.key_bytes / (t.qk_dim + t.v_dim), m);
  constexpr double kReferenceKeyBytes = 512;  // of a step's chain: 64 keys of 2 x 128 at 16 bits
  const double seen = (t.qk_dim + t.v_dim / parts) / (t.qk_dim + t.v_dim);  // of a key's bytes by a CTA
  const double step_clk = c.family->step_clk * seen * t.key_bytes / kReferenceKeyBytes;
  cut_keys(c, how, std::max(1.0, wanted), most, m, [&](Demand& main, double splits) {
    main.plan.ctas = static_cast<std::int64_t>(t.kv_sets * splits * parts);
    main.plan.steps = main.plan.longest = ceil_div(ceil_div(t.context, splits), kStep);
    main.step_latency = (c.family->start_clk + (main.plan.steps + 1) * step_clk) / main.plan.steps / m.clock;
    c.combines = splits > 1;
    if (c.combines) c.combine = combine_demand(t.out_rows, t.v_dim, splits, output_bytes_of(s.dtype), m);
    decode_traffic(main, t, s.dtype, splits > 1 ? ResultsLeave::by_the_merge : ResultsLeave::here);
  });
  if (s.append == 1 && kernel.write_family != 0) write_new_token(c, s, families[kernel.write_family], m);
  return c;
}

}  // namespace plumbline
