#include "model/stacks/common/plan_attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "arch/error.hpp"
#include "model/engine/timing.hpp"
#include "model/stacks/common/priced_times.hpp"
#include "model/stacks/common/warm.hpp"
#include "ops/op/attention_math.hpp"

namespace plumbline {
namespace {

/// sum over i in [0, n) of min(ceil((first + i * stride) / tile), most), without a loop over long sequences.
double staircase_sum(double first, double stride, double n, double tile, double most) {
  double sum = 0;
  const double exact_until = std::min(n, 4096.0);
  for (double i = 0; i < exact_until; ++i) sum += std::min(ceil_div(first + i * stride, tile), most);
  if (n > exact_until) {  // beyond 4096 tiles the staircase is its own ramp to one part in ten thousand
    const double a = std::min((first + exact_until * stride) / tile + 0.5, most);
    const double b = std::min((first + (n - 1) * stride) / tile + 0.5, most);
    sum += (n - exact_until) * 0.5 * (a + b);
  }
  return sum;
}

/// Tile i goes from the block of the first key that its first query sees to that of its last query's own key. Beyond 4096
/// tiles the rest is as the ones before it.
BlockCount windowed_blocks(double queries, double keys, double window, double q_tile, double kv_tile,
                           WindowBegin begin) {
  BlockCount count;
  count.tiles = ceil_div(queries, q_tile);
  const double counted = std::min(count.tiles, 4096.0), before = keys - queries;
  for (double i = 0; i < counted; ++i) {
    const bool own_key = begin == WindowBegin::own_key;
    const double query = own_key ? std::floor(i * q_tile) : i * q_tile;
    const double last = own_key ? std::ceil((i + 1) * q_tile) : (i + 1) * q_tile;
    const double first = std::max(0.0, before + query - (window - 1)), end = std::min(keys, before + last);
    const double blocks =
        own_key ? ceil_div(end - first, kv_tile) : ceil_div(end, kv_tile) - std::floor(first / kv_tile);
    count.total += blocks;
    count.longest = std::max(count.longest, blocks);
  }
  count.total *= count.tiles / counted;
  return count;
}

}  // namespace

BlockCount visited_blocks(const AttentionPrefill& s, double q_tile, double kv_tile, WindowBegin begin) {
  BlockCount count;
  const double q = static_cast<double>(s.q_len), kv = static_cast<double>(s.kv_len);
  const double window = s.window > 0 ? static_cast<double>(s.window) : kv;
  count.tiles = ceil_div(q, q_tile);
  const double all = ceil_div(kv, kv_tile);
  if (!s.causal) {
    count.longest = all - std::floor((kv - std::min(kv, window)) / kv_tile);  // the last `window` keys
    count.total = count.tiles * count.longest;
    return count;
  }
  if (window < kv && begin != WindowBegin::worst_tile) return windowed_blocks(q, kv, window, q_tile, kv_tile, begin);
  // the last query of tile i sees keys up to kv - q + (i + 1) q_tile; its first sees back `window` keys
  const double reach = ceil_div(std::min(window + q_tile - 1, kv), kv_tile) + (window < kv ? 1 : 0);
  count.longest = std::min(all, reach);
  count.total = staircase_sum(kv - q + std::min(q_tile, q), q_tile, count.tiles, kv_tile, count.longest);
  return count;
}

SoftmaxCost softmax_cost(const Rates& m) {
  constexpr SoftmaxCost kPacked{3.5, 2.5};
  return m.path.kind == TensorPath::Kind::tcgen05 ? kPacked : kPlainSoftmax;
}

void score_demand(Demand& d, const ScoredTile& tile, double flop_per_clk, double kv_bytes, const Rates& m,
                  const SoftmaxCost& softmax) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double scores = tile.rows * tile.keys, columns = tile.qk_dim + tile.v_dim;
  d.tensor_clk = 2.0 * scores * columns / flop_per_clk;
  d.sfu_clk = scores / sm.sfu_op_per_clk;
  d.fp32_clk = scores * softmax.lanes / (sm.fp32_flop_per_clk / 2);
  d.issue_clk = scores * (softmax.instructions + 1) / static_cast<double>(sm.warp_size) / sm.issue_per_clk;
  const double kv_tile = tile.keys * columns * kv_bytes;
  d.smem_clk = 2.0 * kv_tile / sm.smem_bytes_per_clk.in(units::B);
  d.l2 = kv_tile * units::B;
}

Bytes prefill_results(const AttentionPrefill& s) {
  const double elements = static_cast<double>(s.batch * s.q_heads * s.q_len * s.v_dim);
  return elements * output_bytes_of(s.dtype) * units::B;
}

void prefill_traffic(Demand& d, const AttentionPrefill& s) {
  const double es = bytes_of(s.dtype);
  const double queries = static_cast<double>(s.batch * s.q_heads * s.q_len);
  // keys that the window hides from every query are never fetched
  const double kv_elements = static_cast<double>(s.batch * s.kv_heads * (s.qk_dim + s.v_dim)) * visible_keys(s);
  d.dram_read = (queries * static_cast<double>(s.qk_dim) * es + kv_elements * bytes_of(s.kv_dtype)) * units::B;
  d.dram_write = prefill_results(s);
}

Demand combine_demand(double rows, double v_dim, double splits, double out_bytes, const Rates& m) {
  Demand d;
  d.plan.ctas = static_cast<std::int64_t>(rows);
  d.plan.ctas_per_sm = 8;
  d.plan.threads = 128;
  d.l2 = 2.0 * splits * v_dim * 4.0 * units::B;
  const Bytes partials = rows * splits * (v_dim + 1) * 4.0 * units::B;
  if (partials > m.l2_capacity) d.partials = d.dram_read = d.dram_write = partials;
  d.dram_write += rows * v_dim * out_bytes * units::B;
  d.step_latency = 2.0 * m.l2_latency;
  return d;
}

void decode_traffic(Demand& d, const DecodeTask& t, DType dtype, ResultsLeave results) {
  const double queries = t.out_rows * t.qk_dim * bytes_of(dtype);
  d.dram_read = (t.kv_sets * t.context * t.key_bytes + queries + t.table_bytes) * units::B;
  d.dram_write = Bytes{};
  if (results == ResultsLeave::here) d.dram_write = t.out_rows * t.v_dim * output_bytes_of(dtype) * units::B;
}

DecodeTask decode_task(const AttentionDecode& s) {
  DecodeTask t;
  t.kv_sets = static_cast<double>(s.batch * s.kv_heads);
  t.ctas_unsplit = t.kv_sets;
  t.rows = static_cast<double>(s.q_heads) / static_cast<double>(s.kv_heads);
  t.context = static_cast<double>(s.window > 0 ? std::min(s.context, s.window) : s.context);
  t.context = std::max(1.0, t.context);
  t.cached = static_cast<double>(s.context);
  t.qk_dim = static_cast<double>(s.qk_dim);
  t.v_dim = static_cast<double>(s.v_dim);
  t.key_bytes = (t.qk_dim + t.v_dim) * bytes_of(s.kv_dtype);
  t.out_rows = static_cast<double>(s.batch * s.q_heads);
  // a window may begin and end inside a page
  if (s.page > 0)
    t.table_bytes = 4.0 * static_cast<double>(s.batch) * (ceil_div(t.context - 1, static_cast<double>(s.page)) + 1);
  return t;
}

double masked_blocks(const AttentionPrefill& s, double queries, double keys, double visited) {
  const double rows = std::min(queries, static_cast<double>(s.q_len));
  const double crossed = std::max(1.0, rows / keys);
  const bool windowed = s.window > 0 && s.window < s.kv_len;
  return std::min(visited, (s.causal ? crossed : 0) + (windowed ? crossed : 0));
}

double mask_clk(double scores, const Rates& m) {
  constexpr double kMaskOps = 8;  // a score: row and column numbers, two compares, a select
  return kMaskOps * scores / (m.gpu.sm.fp32_flop_per_clk / 2);
}

double end_check_clk(std::int64_t kv_len, double keys_of_step, double scores, const Rates& m) {
  constexpr double kOps = 2;
  const bool filled = kv_len % static_cast<std::int64_t>(keys_of_step) == 0;
  return filled ? 0 : kOps * scores / (m.gpu.sm.fp32_flop_per_clk / 2);
}

Seconds time_of(const AttentionChoice& c, const Rates& m, const KeyCutting& how) {
  if (how.alone > Flops{}) {
    std::array<PlannedLaunch, 5> launches;
    std::size_t count = 0;
    launches[count++] = {&c.main, c.family};
    if (c.prepares) launches[count++] = {&c.prepare, c.prepare_family};
    if (c.combines) launches[count++] = {&c.combine, c.combine_family};
    for (int i = 0; i < c.copies; ++i) launches[count++] = {&c.copy, c.copy_family};
    return PricedTimes(m, how.alone, how.math).price(std::span(launches).first(count)).time;
  }
  constexpr Seconds kNeverGiveUp = 1e30 * units::s;
  Seconds time = price_total(c.main, m, *c.family, kNeverGiveUp);
  if (c.prepares) time += price_total(c.prepare, m, *c.prepare_family, kNeverGiveUp) + m.gap_graph;
  if (c.combines) time += price_total(c.combine, m, *c.combine_family, kNeverGiveUp) + m.gap_graph;
  if (c.copies > 0) time += c.copies * (price_total(c.copy, m, *c.copy_family, kNeverGiveUp) + m.gap_graph);
  return time;
}

void require_tensor_path(DType type, const Question& q) {
  if (q.rates.gpu.sm.tensor_flop_per_clk[type] > 0) return;
  throw BadInput(q.gpu + " has no " + std::string(name(type)) + " tensor path for attention");
}

namespace {

/// Traffic of a library's launches where L2 holds a share of all operands from the call before. Chains of loads stay as
/// they are: they were fitted to repeated calls, whose caches L2 held up to some 40 MB.
void take_held(AttentionChoice& c, double held) {
  for (Demand* d : {&c.main, &c.prepare, &c.quantize, &c.combine, &c.copy}) {
    d->dram_read = d->partials + (1 - held) * (d->dram_read - d->partials);
    d->dram_write = d->partials + (1 - held) * (d->dram_write - d->partials);
  }
}

/// All that a call passes over once: its operands, what it prepares of them, and its results.
Bytes working_set(const AttentionChoice& c) {
  Bytes set = c.main.dram_read + c.main.dram_write;
  if (c.prepares) set += c.prepare.dram_read;
  if (c.quantizes) set += c.quantize.dram_read;
  return set;
}

}  // namespace

void answer_attention(const AttentionChoice& cold, const char* kernel, Variant variant, const Question& asked,
                      Answer& out) {
  AttentionChoice choice = cold;
  Question q = asked;
  if (asked.warmth == Warmth::everything && asked.cutting == Cutting::by_rule) {
    take_held(choice, asked.rates.still_held(working_set(cold)));
    q.warmth = Warmth::cold;
  }
  out.sign(*choice.family, variant);
  out.attention_plan = choice.plan;
  if (choice.prepares) launch_as_found(out, q, "rotate and append", choice.prepare, *choice.prepare_family);
  if (choice.quantizes) launch_as_found(out, q, "quantize", choice.quantize, *choice.prepare_family);
  for (int i = 1; i < choice.copies; ++i) launch_as_found(out, q, "transpose", choice.copy, *choice.copy_family);
  launch_as_found(out, q, kernel, choice.main, *choice.family);
  if (choice.combines) launch_as_found(out, q, "combine", choice.combine, *choice.combine_family);
  if (choice.copies > 0) launch_as_found(out, q, "transpose", choice.copy, *choice.copy_family);
}

namespace {

struct VariantOf {
  Variant operator()(const AttentionPrefill& s) const {
    if (bits(s.dtype) <= 8) return Variant::math_8bit;
    if (s.qk_dim != s.v_dim) return Variant::latent;
    if (!s.causal && s.q_len == s.kv_len) return Variant::encoder;
    return bits(s.kv_dtype) <= 8 ? Variant::cache_8bit : Variant::usual;
  }
  Variant operator()(const AttentionDecode& s) const {
    constexpr std::int64_t kMostGrouped = 16, kFewKeys = 127;
    if (s.context < kFewKeys) return Variant::few_keys;
    if (s.q_heads > kMostGrouped * s.kv_heads) return Variant::wide_groups;
    return bits(s.kv_dtype) <= 8 ? Variant::cache_8bit : Variant::usual;
  }
  Variant operator()(const MlaDecode& s) const { return bits(s.kv_dtype) <= 8 ? Variant::cache_8bit : Variant::usual; }
  template <class Other>
  Variant operator()(const Other&) const {
    return Variant::usual;
  }
};

}  // namespace

Variant attention_variant(const Op& op) { return std::visit(VariantOf{}, op); }

}  // namespace plumbline
