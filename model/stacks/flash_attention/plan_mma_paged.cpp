// FlashAttention-2 over caches in pages: prompts and decode as vLLM calls it on cards without wgmma. Caches in pages take the
// kernel that can split keys, prompts too (mha_varlen_fwd() of csrc/flash_attn/flash_api.cpp; run_mha_fwd_splitkv_dispatch()
// of flash_fwd_launch_template.h): four warps that share 64 rows of queries.
#include <algorithm>
#include <cmath>

#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/flash_attention/mma_paged.hpp"
#include "model/stacks/flash_attention/paged.hpp"
#include "model/stacks/flash_attention/plan_attention.hpp"

namespace plumbline {

using namespace flash_attention;

namespace {

constexpr double kTileRows = 64, kWarpRows = 16;
constexpr std::int64_t kThreads = 128;

/// What a block of keys costs a tile. A warp is on its own with its 16 rows: it reads the tile's queries, all keys and all
/// values from shared memory, and one product, the softmax and the other product follow one another, so that alone on an SM a
/// tile takes their sum and what its loads make it wait.
void block_demand(Demand& d, double keys, double qk_dim, double v_dim, DType type, const Rates& m,
                  const FamilyScalars& family) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double es = bytes_of(type), width = qk_dim + v_dim;
  score_demand(d, {kTileRows, keys, qk_dim, v_dim}, mma_sync_flop_per_clk(type, m), es, m);
  d.fp32_clk += kTileRows * v_dim / (sm.fp32_flop_per_clk / 2);
  const double read = kTileRows * qk_dim + kTileRows / kWarpRows * keys * width;
  d.smem_clk = (read + keys * width) * es / sm.smem_bytes_per_clk.in(units::B);
  d.step_latency = (d.tensor_clk + d.fp32_clk + d.sfu_clk + family.step_clk) / m.clock;
}

/// A CTA's way to its first keys and from its last: those that share an SM are on it side by side.
void start_ctas(Demand& d, const Rates& m, const FamilyScalars& family) {
  const double side_by_side =
      std::min(static_cast<double>(d.plan.ctas_per_sm), std::ceil(static_cast<double>(d.plan.ctas) / m.sm_count));
  d.once_clk = family.start_clk / std::max(1.0, side_by_side);
}

/// A family for SMs that hold two of the kernel's CTAs, one for those that hold one (of 100 KB).
const FamilyScalars& family_of(double ctas_per_sm, const MmaPagedFamilies& names,
                               std::span<const FamilyScalars> families) {
  return families[ctas_per_sm > 1 ? names.two_on_sm : names.one_on_sm];
}

/// Heads of a group become rows of a tile, which is another layout of queries and results where there are several sequences
/// and KV heads: queries are copied into it, and results back. Else results alone are copied, as they lie, from a tensor of
/// their own to the caller's.
void swap_layouts(AttentionChoice& c, const AttentionDecode& s, const MmaPagedFamilies& names,
                  std::span<const FamilyScalars> families) {
  constexpr double kElementsOfCta = 512;
  const double elements = static_cast<double>(s.batch * s.q_heads * s.v_dim);
  const bool transposes = s.batch > 1 && s.kv_heads > 1;
  c.copies = transposes ? 2 : 1;
  c.copy_family = &families[transposes ? names.transpose : names.copy];
  c.copy.plan.ctas = static_cast<std::int64_t>(ceil_div(elements, kElementsOfCta));
  c.copy.plan.ctas_per_sm = 16;
  c.copy.plan.threads = 128;
  c.copy.dram_read = c.copy.dram_write = elements * bytes_of(s.dtype) * units::B;
}

/// The merge of the parts: a CTA for four rows (of 128 columns) goes from part to part, and waits for L2 each time.
/// (combine_attn_seqk_parallel())
Demand merge_demand(double rows, double v_dim, double parts, const AttentionDecode& s, const Rates& m) {
  constexpr double kElements = 512, kPartialBytes = 4;
  Demand d = combine_demand(rows, v_dim, parts, output_bytes_of(s.dtype), m);
  const double rows_of_cta = std::max(1.0, std::floor(kElements / v_dim));
  d.plan.ctas = static_cast<std::int64_t>(ceil_div(rows, rows_of_cta));
  d.plan.threads = kThreads;
  d.plan.steps = d.plan.longest = parts;
  d.l2 = rows_of_cta * v_dim * kPartialBytes * units::B;
  d.step_latency = m.l2_mean_latency();
  return d;
}

AttentionDecode as_decode(const AttentionPrefill& s) {
  AttentionDecode d;
  d.batch = s.batch;
  d.q_heads = s.q_heads;
  d.kv_heads = s.kv_heads;
  d.qk_dim = s.qk_dim;
  d.v_dim = s.v_dim;
  d.context = s.kv_len - 1;
  d.window = s.window;
  d.dtype = s.dtype;
  d.kv_dtype = s.kv_dtype;
  return d;
}

}  // namespace

double flash_attention::mma_paged_keys(double width) {
  constexpr double kNarrow = 64, kUsual = 128;
  return width <= kNarrow ? 256 : width <= kUsual ? 128 : 64;
}

double flash_attention::mma_paged_ctas(double width, double element_bytes, const Rates& m) {
  constexpr double kMost = 2;  // by registers
  const double bytes = (kTileRows + 2 * mma_paged_keys(width)) * width * element_bytes;
  return std::clamp(std::floor(m.gpu.sm.smem / (bytes * units::B + m.gpu.sm.smem_reserved_per_block)), 1.0, kMost);
}

bool flash_attention::prices_mma_paged(const AttentionPrefill& s, const Rates& m) {
  const double width = std::max(compiled_width(s.qk_dim), compiled_width(s.v_dim));
  constexpr Bytes kRoomForTwo = 128.0 * units::KiB;
  if (s.q_len == 1 || m.gpu.sm.smem >= kRoomForTwo || mma_paged_ctas(width, bytes_of(s.dtype), m) > 1) return true;
  const double tiles = ceil_div(static_cast<double>(s.q_len), kTileRows);
  return static_cast<double>(s.batch * s.q_heads) * tiles <= m.sm_count;
}

double flash_attention::mma_paged_parts(double tiles, double blocks, double sm_count) {
  constexpr double kFull = 0.8, kMost = 128, kGoodEnough = 0.85, kCtasOfSm = 2;
  const double slots = kCtasOfSm * sm_count;
  if (tiles >= kFull * slots) return 1;
  const double most = std::min({kMost, slots, blocks});
  const auto filled = [&](double parts) {
    const bool same_as_fewer = parts > 1 && ceil_div(blocks, parts) >= ceil_div(blocks, parts - 1);
    const double waves = tiles * parts / slots;
    return same_as_fewer ? 0 : waves / std::ceil(waves);
  };
  double best = 0;
  for (double parts = 1; parts <= most; ++parts) best = std::max(best, filled(parts));
  for (double parts = 1; parts <= most; ++parts) {
    if (filled(parts) >= kGoodEnough * best) return parts;
  }
  return 1;
}

AttentionChoice plan_mma_paged_prefill(const AttentionPrefill& s, bool appends, const Rates& m,
                                       std::span<const FamilyScalars> families, const MmaPagedFamilies& names) {
  if (s.q_len == 1) return plan_mma_paged_decode(as_decode(s), appends, m, families, {}, names);
  const double qk_dim = compiled_width(s.qk_dim), v_dim = compiled_width(s.v_dim), width = std::max(qk_dim, v_dim);
  const double keys = mma_paged_keys(width), resident = mma_paged_ctas(width, bytes_of(s.dtype), m);
  AttentionChoice c;
  c.math = s.dtype;
  c.family = &family_of(resident, names, families);
  c.plan.q_tile = static_cast<std::int64_t>(kTileRows);
  c.plan.kv_tile = static_cast<std::int64_t>(keys);
  const BlockCount blocks = visited_blocks(s, kTileRows, keys);
  Demand& d = c.main;
  d.plan.ctas = static_cast<std::int64_t>(static_cast<double>(s.batch * s.q_heads) * blocks.tiles);
  d.plan.ctas_per_sm = static_cast<std::int64_t>(resident);
  d.plan.threads = kThreads;
  d.plan.shortest_first = true;  // tiles are the fastest index of the grid
  d.plan.steps = blocks.total / blocks.tiles;
  d.plan.longest = blocks.longest;
  block_demand(d, keys, qk_dim, v_dim, s.dtype, m, *c.family);
  start_ctas(d, m, *c.family);
  prefill_traffic(d, s);
  if (appends) write_new_keys(c, s, families[names.write], m);
  return c;
}

AttentionChoice plan_mma_paged_decode(const AttentionDecode& s, bool appends, const Rates& m,
                                      std::span<const FamilyScalars> families, const KeyCutting& how,
                                      const MmaPagedFamilies& names) {
  DecodeTask t = decode_task(s);
  // heads of a group share a tile where no window hides keys; else each has a tile of its own, and its keys are not cut
  const bool windowed = s.window > 0 && s.window <= s.context;
  const bool swapped = t.rows > 1 && !windowed;
  const double qk_dim = compiled_width(s.qk_dim), v_dim = compiled_width(s.v_dim), width = std::max(qk_dim, v_dim);
  const double keys = mma_paged_keys(width), resident = mma_paged_ctas(width, bytes_of(s.dtype), m);
  const double tiles = swapped ? t.kv_sets * ceil_div(t.rows, kTileRows) : t.out_rows;
  const double blocks = visible_blocks(t.cached, static_cast<double>(s.window), keys);
  AttentionChoice c;
  c.math = s.dtype;
  c.family = &family_of(resident, names, families);
  c.combine_family = &families[names.merge];
  c.plan.q_tile = static_cast<std::int64_t>(kTileRows);
  c.plan.kv_tile = static_cast<std::int64_t>(keys);
  c.plan.packed_heads = static_cast<std::int64_t>(swapped ? t.rows : 1);
  Demand& d = c.main;
  d.plan.ctas_per_sm = static_cast<std::int64_t>(resident);
  d.plan.threads = kThreads;
  block_demand(d, keys, qk_dim, v_dim, s.dtype, m, *c.family);
  const double most = swapped ? blocks : 1;
  cut_keys(c, how, swapped ? mma_paged_parts(tiles, blocks, m.sm_count) : 1, most, m, [&](Demand& main, double parts) {
    main.plan.steps = main.plan.longest = ceil_div(blocks, parts);
    main.plan.ctas = static_cast<std::int64_t>(tiles * ceil_div(blocks, main.plan.steps));
    start_ctas(main, m, *c.family);
    c.combines = parts > 1;
    if (c.combines) c.combine = merge_demand(t.out_rows, t.v_dim, parts, s, m);
    decode_traffic(main, t, s.dtype, parts > 1 ? ResultsLeave::by_the_merge : ResultsLeave::here);
  });
  if (swapped) swap_layouts(c, s, names, families);
  if (appends) write_new_token(c, s, families[names.write], m);
  return c;
}

}  // namespace plumbline
