// FlashAttention-3 over caches in pages: prompts and decode as vLLM calls it on cards with wgmma.
#include <algorithm>
#include <cmath>

#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/flash_attention/paged.hpp"
#include "model/stacks/flash_attention/plan_attention.hpp"

namespace plumbline {

using namespace flash_attention;

namespace {

bool hides_keys(const AttentionPrefill& s) { return s.window > 0 && s.window < s.kv_len; }

PagedQuestion question_of(const AttentionPrefill& s) {
  const double qk_dim = compiled_width(s.qk_dim), v_dim = compiled_width(s.v_dim);
  const std::int64_t queries = s.q_len * (s.q_heads / s.kv_heads);
  return {std::max(qk_dim, v_dim), v_dim, static_cast<double>(queries), hides_keys(s), is_narrow(s.dtype)};
}

/// Work of a block of scores. Each warpgroup reads the keys itself; wgmma takes 8-bit values along the keys alone, so that they
/// are transposed on their way through shared memory.
void block_demand(Demand& d, const PagedTile& tile, const PagedQuestion& q, double qk_dim, DType type, const Rates& m) {
  constexpr double kWarpgroupRows = 64;
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double es = bytes_of(type), width = qk_dim + q.v_width;
  score_demand(d, {tile.rows, tile.keys, qk_dim, q.v_width}, sm.tensor_flop_per_clk[type], es, m);
  d.fp32_clk += tile.rows * q.v_width / (sm.fp32_flop_per_clk / 2);
  const double read = tile.rows * qk_dim + tile.rows / kWarpgroupRows * tile.keys * width;
  const double transposed = q.narrow ? 2 * tile.keys * q.v_width : 0;
  d.smem_clk = ((read + tile.keys * width) * es + transposed) / sm.smem_bytes_per_clk.in(units::B);
  d.exposed_clk = not_overlapped_clk(d, q);
}

PagedWork work_of(const AttentionPrefill& s, const PagedTile& tile, double packed) {
  const double keys = static_cast<double>(s.kv_len), window = static_cast<double>(s.window);
  PagedWork work{.sequences = static_cast<double>(s.batch), .kv_heads = static_cast<double>(s.kv_heads)};
  work.queries_a_step = static_cast<double>(s.q_len);
  work.row_tiles = ceil_div(work.queries_a_step * packed, tile.rows);
  work.blocks = ceil_div(keys, tile.keys);
  work.blocks_loaded = hides_keys(s) ? ceil_div(std::min(keys, window + tile.rows), tile.keys) : work.blocks;
  work.tokens = work.sequences * work.queries_a_step;
  return work;
}

AttentionPrefill one_token(const AttentionDecode& s) {
  AttentionPrefill p;
  p.batch = s.batch;
  p.q_heads = s.q_heads;
  p.kv_heads = s.kv_heads;
  p.qk_dim = s.qk_dim;
  p.v_dim = s.v_dim;
  p.q_len = 1;
  p.kv_len = s.context + 1;
  p.dtype = s.dtype;
  p.kv_dtype = s.kv_dtype;
  return p;
}

/// An SM ends last that has one CTA more than others: what a CTA takes once is seen so often.
double whole_turns(const KernelPlan& plan, const Rates& m) {
  const double turns = static_cast<double>(plan.ctas) / m.sm_count;
  return plan.longest > plan.steps && turns > 1 ? std::ceil(turns) / turns : 1;
}

}  // namespace

void cut_prompt(AttentionChoice& c, const AttentionPrefill& s, double parts, const Rates& m) {
  if (parts <= 1) return;
  KernelPlan& plan = c.main.plan;
  c.plan.splits = static_cast<std::int64_t>(parts);
  plan.ctas = static_cast<std::int64_t>(static_cast<double>(plan.ctas) * parts);
  plan.steps = std::max(1.0, plan.steps / parts);
  plan.longest = std::max(1.0, std::ceil(plan.longest / parts));
  c.combines = true;
  const double rows = static_cast<double>(s.batch * s.q_heads * s.q_len);
  c.combine = combine_demand(rows, static_cast<double>(s.v_dim), parts, output_bytes_of(s.dtype), m);
  c.main.dram_write = Bytes{};
}

/// A CTA for each token with a thread an element of its keys, 512 at most, so that tokens of few and narrow heads share an SM.
/// `step_clk`: what rounding to a cache of 8 bits adds. (vLLM's csrc/cache_kernels.cu, reshape_and_cache_flash())
Demand cache_write_demand(const AttentionPrefill& s, const FamilyScalars& family, const Rates& m) {
  constexpr double kMostThreads = 512;
  const double tokens = static_cast<double>(s.batch * s.q_len);
  const double new_kv = tokens * static_cast<double>(s.kv_heads * (s.qk_dim + s.v_dim));
  const double warp = static_cast<double>(m.gpu.sm.warp_size);
  const double threads = std::clamp(static_cast<double>(s.kv_heads * s.qk_dim), warp, kMostThreads);
  const double slots = static_cast<double>(m.gpu.sm.threads);
  const double resident = std::min(static_cast<double>(m.gpu.sm.blocks), std::floor(slots / threads));
  Demand p;
  p.dram_read = new_kv * bytes_of(s.dtype) * units::B;
  p.dram_write = new_kv * bytes_of(s.kv_dtype) * units::B;
  p.plan.ctas = s.batch * s.q_len;
  p.plan.ctas_per_sm = static_cast<std::int64_t>(std::max(1.0, resident));
  p.plan.threads = static_cast<std::int64_t>(threads);
  const double converts = s.kv_dtype == s.dtype ? 0 : family.step_clk;
  p.step_latency = (family.start_clk + converts) / m.clock;
  return p;
}

void write_new_keys(AttentionChoice& c, const AttentionPrefill& s, const FamilyScalars& family, const Rates& m) {
  c.prepares = true;
  c.prepare_family = &family;
  c.prepare = cache_write_demand(s, family, m);
}

void write_new_token(AttentionChoice& c, const AttentionDecode& s, const FamilyScalars& family, const Rates& m) {
  write_new_keys(c, one_token(s), family, m);
}

AttentionChoice plan_paged_prefill(const AttentionPrefill& asked, bool appends, const Rates& m,
                                   std::span<const FamilyScalars> families, const PrefillCut& cut) {
  AttentionPrefill s = asked;
  s.dtype = multiplied(asked.dtype, asked.kv_dtype, m);
  const PagedQuestion q = question_of(s);
  const PagedTile tile = paged_tile(q);
  const std::int64_t group = s.q_heads / s.kv_heads;
  const double qk_dim = compiled_width(s.qk_dim), packed = static_cast<double>(group);
  const BlockCount blocks = visited_blocks(s, tile.rows / packed, tile.keys, WindowBegin::own_key);
  AttentionChoice c;
  c.math = s.dtype;
  c.family = &families[q.narrow ? cut.narrow_family : cut.paged_family];
  c.combine_family = &families[kCombine];
  c.plan.q_tile = static_cast<std::int64_t>(tile.rows);
  c.plan.kv_tile = static_cast<std::int64_t>(tile.keys);
  c.plan.packed_heads = static_cast<std::int64_t>(packed);
  Demand& d = c.main;
  d.plan.ctas = static_cast<std::int64_t>(static_cast<double>(s.batch * s.kv_heads) * blocks.tiles);
  d.plan.threads = static_cast<std::int64_t>(2 * tile.rows) + 128;
  d.plan.steps = blocks.total / blocks.tiles;
  d.plan.longest = blocks.longest;
  block_demand(d, tile, q, qk_dim, s.dtype, m);
  // what of a block's softmax is not hidden goes with its scores
  constexpr double kReferenceScores = 128.0 * 128.0;
  const double scores = tile.rows * tile.keys / kReferenceScores;
  d.exposed_clk += scores * (q.narrow ? c.family->issue_step_clk : c.family->step_clk);
  if (q.narrow) d.step_latency = paged_chain_clk(tile.keys, qk_dim, q.v_width, true, c.family->step_clk) / m.clock;
  const double queries = std::min(tile.rows / packed, static_cast<double>(s.q_len));
  d.once_clk = masked_clk(queries, tile, q, d.plan.steps, m) + crowded_clk(tile, q) + c.family->start_clk;
  if (!tile.one_warpgroup) d.once_clk += c.family->issue_start_clk;
  prefill_traffic(d, s);
  d.dram_write = prefill_results(asked);
  cut_prompt(c, s, paged_parts(work_of(s, tile, packed), m.sm_count), m);
  d.once_clk *= whole_turns(d.plan, m);
  if (appends) write_new_keys(c, asked, families[cut.write_family], m);
  return c;
}

/// A part of a sequence's keys is a CTA; tiles are whole however few of their rows have queries.
AttentionChoice plan_paged_decode(const AttentionDecode& asked, const Rates& m, std::span<const FamilyScalars> families,
                                  const KeyCutting& how, const DecodeCut& kernel) {
  AttentionDecode s = asked;
  s.dtype = multiplied(asked.dtype, asked.kv_dtype, m);
  const bool narrow = is_narrow(s.dtype), windowed = s.window > 0 && s.window <= s.context;
  const DecodeTask t = decode_task(s);
  const double qk_dim = compiled_width(s.qk_dim), v_dim = compiled_width(s.v_dim);
  const PagedQuestion q{std::max(qk_dim, v_dim), v_dim, t.rows, windowed, narrow};
  const PagedTile tile = paged_tile(q);
  AttentionChoice c;
  c.math = s.dtype;
  c.family = &families[narrow ? kernel.narrow_family : kernel.paged_family];
  c.combine_family = &families[kCombine];
  c.plan.q_tile = static_cast<std::int64_t>(tile.rows);
  c.plan.kv_tile = static_cast<std::int64_t>(tile.keys);
  c.plan.packed_heads = static_cast<std::int64_t>(t.rows);
  const double window = static_cast<double>(s.window), cached = t.cached + 1;
  PagedWork work{.sequences = static_cast<double>(s.batch), .kv_heads = static_cast<double>(s.kv_heads)};
  work.row_tiles = ceil_div(t.rows, tile.rows);
  work.blocks = ceil_div(cached, tile.keys);
  work.blocks_loaded = windowed ? ceil_div(std::min(cached, window + tile.rows), tile.keys) : work.blocks;
  work.tokens = work.sequences;
  work.queries_a_step = 1;
  const double seen = visible_blocks(t.cached, window, tile.keys);
  Demand& d = c.main;
  d.plan.threads = static_cast<std::int64_t>(2 * tile.rows) + 128;
  block_demand(d, tile, q, qk_dim, s.dtype, m);
  if (!tile.one_warpgroup) d.exposed_clk += c.family->issue_step_clk;
  // one warpgroup with heads of 64 starts sooner, and CTAs take their first tiles from one counter, one after the other: by an
  // H200's training rows of up to 127 keys, 7.5 us of 64 and 8.5 of 128 with few CTAs, 8.3 and 9.7 with 128
  constexpr double kStartWidth = 128;
  constexpr Seconds kDealt = 7e-9 * units::s;
  const double of_128 = tile.one_warpgroup ? v_dim / kStartWidth : 1;
  d.once_clk = 0.5 * (1 + of_128) * c.family->start_clk + (tile.one_warpgroup ? 0 : c.family->issue_start_clk);
  const double filled = keys_seen(t.cached, window) / (seen * tile.keys);
  d.step_latency = paged_chain_clk(tile.keys, qk_dim, v_dim, narrow, c.family->step_clk, filled) / m.clock;
  cut_keys(c, how, paged_parts(work, m.sm_count), work.blocks, m, [&](Demand& main, double parts) {
    main.plan.steps = main.plan.longest = ceil_div(seen, parts);
    main.plan.ctas = static_cast<std::int64_t>(t.kv_sets * work.row_tiles * ceil_div(seen, main.plan.steps));
    main.serial_latency =
        std::min(static_cast<double>(main.plan.ctas), m.sm_count) * kDealt + walk_over_sequences(work.sequences, m);
    main.serial_latency_of = "to deal out first tiles and to walk over the sequences";
    c.combines = parts > 1;
    if (c.combines) c.combine = combine_demand(t.out_rows, t.v_dim, parts, output_bytes_of(s.dtype), m);
    decode_traffic(main, t, s.dtype, parts > 1 ? ResultsLeave::by_the_merge : ResultsLeave::here);
  });
  if (asked.append == 1) write_new_token(c, asked, families[kernel.write_family], m);
  return c;
}

}  // namespace plumbline
