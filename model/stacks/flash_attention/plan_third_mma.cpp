// FlashAttention-3 over caches in pages on cards with mma.sync: prompts and decode as SGLang calls it where it is asked for. The
// query heads of a KV head always share a tile, and parts of keys are dealt out as on Hopper; a step of a tile is as FlashAttention-2's,
// and its CTAs start as those over pages do.
#include <algorithm>
#include <cmath>

#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/flash_attention/paged.hpp"
#include "model/stacks/flash_attention/plan_attention.hpp"
#include "model/stacks/flash_attention/second.hpp"
#include "model/stacks/flash_attention/third_mma.hpp"

namespace plumbline {

using namespace flash_attention;

namespace {

constexpr double kWarpThreads = 32;

struct Cut {
  double qk_dim = 0, v_dim = 0;
  ThirdTile tile;
  double resident = 1;
};

Cut cut_of(double qk_dim, double v_dim, bool windowed, bool in_parts, DType type, const Rates& m) {
  Cut c{qk_dim, v_dim, third_tile({std::max(qk_dim, v_dim), windowed, in_parts, is_sm8x(m)}), 1};
  c.resident = third_ctas(c.tile, qk_dim, v_dim, bytes_of(type), m);
  return c;
}

/// A block as FlashAttention-2's steps are (second_step_clk()), `steps`: theirs, fitted on an H200 and the same clocks on an A100.
/// CTAs that share an SM hide each other's waits: one alone takes the whole of it.
void block_demand(Demand& d, const Cut& c, DType type, const Rates& m, const FamilyScalars& steps) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double es = bytes_of(type), width = c.qk_dim + c.v_dim, rows = c.tile.rows, keys = c.tile.keys;
  const double lanes = sm.fp32_flop_per_clk / 2, scores = rows * keys;
  score_demand(d, {rows, keys, c.qk_dim, c.v_dim}, mma_sync_flop_per_clk(type, m), es, m, kPlainSoftmax);
  d.fp32_clk += rows * c.v_dim / lanes;
  const double read = (c.tile.holds_queries ? 0 : rows * c.qk_dim) + c.tile.warps * keys * width;
  d.smem_clk = (read + keys * width) * es / sm.smem_bytes_per_clk.in(units::B);
  const SecondStep step{2 * scores * width / second_flop_per_clk(type, m), softmax_clk(scores, rows * c.v_dim, m),
                        d.smem_clk};
  const double together = c.resident * second_step_clk(step, c.resident * c.tile.warps / kSmQuarters, steps);
  const double alone = second_step_clk(step, c.tile.warps / kSmQuarters, steps);
  d.exposed_clk = 0;
  d.chain_clk = std::max(alone, together);
}

void start_ctas(Demand& d, const Cut& c, const Rates& m, const FamilyScalars& family) {
  const double beside = std::ceil(static_cast<double>(d.plan.ctas) / m.sm_count);
  d.once_clk = family.start_clk / std::clamp(beside, 1.0, c.resident);
}

void describe(AttentionChoice& choice, const Cut& c, double packed) {
  choice.plan.q_tile = static_cast<std::int64_t>(c.tile.rows);
  choice.plan.kv_tile = static_cast<std::int64_t>(c.tile.keys);
  choice.plan.packed_heads = static_cast<std::int64_t>(packed);
  choice.main.plan.ctas_per_sm = static_cast<std::int64_t>(c.resident);
  choice.main.plan.threads = static_cast<std::int64_t>(c.tile.warps * kWarpThreads);
}

PagedWork work_of(const AttentionPrefill& s, const ThirdTile& tile, double packed, bool windowed) {
  const double keys = static_cast<double>(s.kv_len), window = static_cast<double>(s.window);
  PagedWork work{.sequences = static_cast<double>(s.batch), .kv_heads = static_cast<double>(s.kv_heads)};
  work.queries_a_step = static_cast<double>(s.q_len);
  work.row_tiles = ceil_div(work.queries_a_step * packed, tile.rows);
  work.blocks = ceil_div(keys, tile.keys);
  work.blocks_loaded = windowed ? ceil_div(std::min(keys, window + tile.rows), tile.keys) : work.blocks;
  work.tokens = work.sequences * work.queries_a_step;
  return work;
}

const FamilyScalars& family_of(const Cut& c, std::span<const FamilyScalars> families, const MmaPagedFamilies& names) {
  return families[c.resident > 1 ? names.two_on_sm : names.one_on_sm];
}

}  // namespace

ThirdTile flash_attention::third_tile(const ThirdQuestion& q) {
  const bool cut = q.cut, windowed = q.windowed;
  if (q.width <= 64) return {128, cut ? 80.0 : windowed ? 96.0 : 112.0, 4, 1, false};
  if (q.width <= 96) return {128, cut || windowed ? 48.0 : 64.0, 4, 1, false};
  if (q.width <= 128) {
    if (!q.small && !cut) return {128, windowed ? 48.0 : 64.0, 4, 1, false};
    return {128, windowed ? 96.0 : cut ? 112.0 : 128.0, 8, 1, true};
  }
  if (q.width <= 192) return {128, 64, 8, q.small ? 1.0 : 2.0, false};
  if (q.small) return {128, cut || windowed ? 48.0 : 64.0, 8, 1, true};
  return {128, cut || windowed ? 64.0 : 96.0, 8, 1, false};
}

double flash_attention::third_ctas(const ThirdTile& t, double qk_dim, double v_dim, double es, const Rates& m) {
  const double queries = t.rows * qk_dim, keys = t.stages * t.keys * qk_dim, values = t.stages * t.keys * v_dim;
  const double held = keys + (t.holds_queries ? std::max(queries, values) : queries + values);
  const double room = std::floor(m.gpu.sm.smem / (held * es * units::B + m.gpu.sm.smem_reserved_per_block));
  return std::clamp(room, 1.0, t.warps > 4 ? 1.0 : 2.0);
}

bool flash_attention::runs_third_on_mma(const Rates& m) {
  return m.path.kind == TensorPath::Kind::mma_sync && m.gpu.sm.async_copy == AsyncCopy::cp_async;
}

AttentionChoice plan_third_mma_prefill(const AttentionPrefill& s, bool appends, const Rates& m,
                                       std::span<const FamilyScalars> families, const MmaPagedFamilies& names) {
  const double qk_dim = compiled_width(s.qk_dim), v_dim = compiled_width(s.v_dim);
  const double packed = static_cast<double>(s.q_heads) / static_cast<double>(s.kv_heads);
  const bool windowed = s.window > 0 && s.window < s.kv_len;
  Cut cut = cut_of(qk_dim, v_dim, windowed, false, s.dtype, m);
  const double parts = paged_parts(work_of(s, cut.tile, packed, windowed), m.sm_count);
  if (parts > 1) cut = cut_of(qk_dim, v_dim, windowed, true, s.dtype, m);
  const BlockCount blocks = visited_blocks(s, cut.tile.rows / packed, cut.tile.keys);
  AttentionChoice c;
  c.math = s.dtype;
  c.family = &family_of(cut, families, names);
  c.combine_family = &families[names.merge];
  describe(c, cut, packed);
  Demand& d = c.main;
  d.plan.ctas = static_cast<std::int64_t>(static_cast<double>(s.batch * s.kv_heads) * blocks.tiles);
  d.plan.shortest_first = true;  // tiles are the fastest index of the grid
  d.plan.steps = blocks.total / blocks.tiles;
  d.plan.longest = blocks.longest;
  block_demand(d, cut, s.dtype, m, families[kSecondSteps]);
  prefill_traffic(d, s);
  cut_prompt(c, s, parts, m);
  start_ctas(d, cut, m, *c.family);
  if (appends) write_new_keys(c, s, families[names.write], m);
  return c;
}

AttentionChoice plan_third_mma_decode(const AttentionDecode& s, const Rates& m, std::span<const FamilyScalars> families,
                                      const KeyCutting& how, const MmaPagedFamilies& names) {
  const DecodeTask t = decode_task(s);
  const double qk_dim = compiled_width(s.qk_dim), v_dim = compiled_width(s.v_dim);
  const double window = static_cast<double>(s.window);
  const bool windowed = s.window > 0 && s.window <= s.context;
  AttentionPrefill one{s.batch, s.q_heads, s.kv_heads, s.qk_dim, s.v_dim, 1, s.context + 1};
  one.window = s.window;
  const Cut whole = cut_of(qk_dim, v_dim, windowed, false, s.dtype, m);
  const double by_rule = paged_parts(work_of(one, whole.tile, t.rows, windowed), m.sm_count);
  const Cut cut = by_rule > 1 ? cut_of(qk_dim, v_dim, windowed, true, s.dtype, m) : whole;
  const double seen = visible_blocks(t.cached, window, cut.tile.keys);
  const double row_tiles = ceil_div(t.rows, cut.tile.rows);
  AttentionChoice c;
  c.math = s.dtype;
  c.family = &family_of(cut, families, names);
  c.combine_family = &families[names.merge];
  describe(c, cut, t.rows);
  block_demand(c.main, cut, s.dtype, m, families[kSecondSteps]);
  cut_keys(c, how, std::min(by_rule, seen), seen, m, [&](Demand& main, double parts) {
    main.plan.steps = main.plan.longest = ceil_div(seen, parts);
    main.plan.ctas = static_cast<std::int64_t>(t.kv_sets * row_tiles * ceil_div(seen, main.plan.steps));
    start_ctas(main, cut, m, *c.family);
    main.serial_latency = walk_over_sequences(static_cast<double>(s.batch), m);
    main.serial_latency_of = "to walk over the sequences";
    c.combines = parts > 1;
    if (c.combines) c.combine = combine_demand(t.out_rows, t.v_dim, parts, output_bytes_of(s.dtype), m);
    decode_traffic(main, t, s.dtype, parts > 1 ? ResultsLeave::by_the_merge : ResultsLeave::here);
  });
  if (s.append == 1) write_new_token(c, s, families[names.write], m);
  return c;
}

}  // namespace plumbline
