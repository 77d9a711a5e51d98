#include "model/plan_attention.hpp"

#include <algorithm>
#include <cmath>

#include "model/own_kernels.hpp"
#include "model/tensor_path.hpp"
#include "model/timing.hpp"

namespace plumbline {
namespace {

double ceil_div(double a, double b) { return std::ceil(a / b); }
double bytes_of(DType type) { return bits(type) / 8.0; }
/// Narrow inputs are answered in bf16 (ops/work.cpp counts the same).
double output_bytes_of(DType type) { return std::max(2.0, bytes_of(type)); }

/// Ordinary-lane operations a score element takes in online softmax: scale-subtract, max, sum, convert, and its share
/// of rescaling the output (modeling notes, section 5: n_fp 6-8).
constexpr double kSoftmaxOps = 7;

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

}  // namespace

BlockCount visited_blocks(const AttentionPrefill& s, double q_tile, double kv_tile) {
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
  // the last query of tile i sees keys up to kv - q + (i + 1) q_tile; its first sees back `window` keys
  const double reach = ceil_div(std::min(window + q_tile - 1, kv), kv_tile) + (window < kv ? 1 : 0);
  count.longest = std::min(all, reach);
  count.total = staircase_sum(kv - q + std::min(q_tile, q), q_tile, count.tiles, kv_tile, count.longest);
  return count;
}

namespace {

/// Clocks one SM takes for one (query tile, key block) pair, and what of it stays exposed. `sharers` query tiles of a
/// CTA use one fetch of the block.
void block_demand(Demand& d, double rows, double keys, double qk_dim, double v_dim, double flop_per_clk,
                  double kv_bytes, double sharers, const Machine& m, const FamilyScalars& family) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double scores = rows * keys;
  d.tensor_clk = 2.0 * scores * (qk_dim + v_dim) / flop_per_clk;
  d.sfu_clk = scores / sm.sfu_op_per_clk;
  d.fp32_clk = scores * kSoftmaxOps / (sm.fp32_flop_per_clk / 2);
  d.issue_clk = scores * (kSoftmaxOps + 1) / static_cast<double>(sm.warp_size) / sm.issue_per_clk;
  const double softmax = std::max({d.sfu_clk, d.fp32_clk, d.issue_clk});
  d.exposed_clk = family.exposed * std::min(softmax, d.tensor_clk / family.efficiency / family.tensor_burst);
  const double kv_tile = keys * (qk_dim + v_dim) * kv_bytes;
  d.smem_clk = 2.0 * kv_tile / sm.smem_bytes_per_clk.in(units::B);
  d.l2 = kv_tile / sharers * units::B;
}

}  // namespace

namespace {

/// Head widths that attention kernels are compiled for; others are padded up (FA3: 64, 96, 128, 192, 256).
double compiled_width(std::int64_t width) {
  const auto w = static_cast<double>(width);
  for (const double compiled : {16.0, 32.0, 64.0, 96.0, 128.0, 192.0, 256.0}) {
    if (w <= compiled) return compiled;
  }
  return std::ceil(w / 64) * 64;
}

}  // namespace

namespace {

/// One elementwise pass: read the fused QKV of the new tokens, write rotated Q and the cache.
Demand prepare_demand(double q_elements, double new_kv, double es, double kv_es, const Machine& m) {
  Demand p;
  p.dram_read = (q_elements + new_kv) * es * units::B;
  p.dram_write = (q_elements * es + new_kv * kv_es) * units::B;
  constexpr double kElementsPerCta = 4096;
  p.plan.ctas = static_cast<std::int64_t>(ceil_div(q_elements + new_kv, kElementsPerCta));
  p.plan.ctas_per_sm = 4;
  p.plan.threads = 256;
  p.step_latency = m.dram_latency;
  p.in_flight = kElementsPerCta * es * units::B;
  return p;
}

/// What differs between the kernel sets: the tile, CTAs an SM, and how many query tiles share a fetch of keys.
struct PrefillCut {
  double q_tile = 64, kv_tile = 128, ctas_per_sm = 2, sharers = 2;
  double qk_dim = 0, v_dim = 0;  ///< head widths as compiled
  const FamilyScalars* family = nullptr;
  bool own = false;
};

/// Libraries: one warpgroup (or four warps) a tile; two of them share an SM and hide each other's softmax.
PrefillCut prefill_cut(const AttentionPrefill& s, const Machine& m) {
  PrefillCut cut;
  cut.qk_dim = compiled_width(s.qk_dim);
  cut.v_dim = compiled_width(s.v_dim);
  cut.family = &m.prefill;
  if (s.v_dim > 128) cut.kv_tile = 64;
  if (const PrefillVariant* own = own_prefill_kernel(s, m)) {
    cut.q_tile = static_cast<double>(own->q_tile);
    cut.kv_tile = static_cast<double>(own->kv_tile);
    cut.ctas_per_sm = static_cast<double>(own->ctas_per_sm);
    cut.sharers = 1;
    cut.family = &*m.own.prefill;
    cut.own = true;
  }
  return cut;
}

}  // namespace

AttentionChoice plan_prefill(const AttentionPrefill& s, const Machine& m) {
  AttentionChoice c;
  const double heads = static_cast<double>(s.batch * s.q_heads);
  const double width = static_cast<double>(s.qk_dim + s.v_dim);
  const double es = bytes_of(s.dtype), kv_es = bytes_of(s.kv_dtype);
  const PrefillCut cut = prefill_cut(s, m);
  c.family = cut.family;
  c.plan.q_tile = static_cast<std::int64_t>(cut.q_tile);
  c.plan.kv_tile = static_cast<std::int64_t>(cut.kv_tile);
  const BlockCount blocks = visited_blocks(s, cut.q_tile, cut.kv_tile);

  Demand& d = c.main;
  d.plan.ctas = static_cast<std::int64_t>(heads * blocks.tiles);
  d.plan.ctas_per_sm = static_cast<std::int64_t>(cut.ctas_per_sm);
  d.plan.threads = m.path.threads(cut.q_tile);
  d.plan.steps = blocks.total / blocks.tiles;
  d.plan.longest = blocks.longest;
  d.step_latency = cut.family->step;
  const double rate = m.gpu.sm.tensor_flop_per_clk[s.dtype];
  block_demand(d, cut.q_tile, cut.kv_tile, cut.qk_dim, cut.v_dim, rate, kv_es, cut.sharers, m, *cut.family);

  if (cut.own) {
    // the first block's softmax has no other block to hide under, and the result leaves through shared memory as a
    // GEMM's does (family own.gemm: 20 bytes a clock); rows behind the last query do not
    constexpr double kStoreBytesPerClk = 20;
    // nothing hides the first tile's way: the tensor maps' from memory, then that of Q and the first keys
    d.chain = 2.0 * m.gpu.memory.latency;
    const double rows = std::min(cut.q_tile, static_cast<double>(s.q_len));
    d.once_clk = std::max({d.sfu_clk, d.fp32_clk, d.issue_clk}) +
                 rows * cut.v_dim * output_bytes_of(s.dtype) / kStoreBytesPerClk;
  }

  const double q_elements = heads * static_cast<double>(s.q_len) * static_cast<double>(s.qk_dim);
  const double o_elements = heads * static_cast<double>(s.q_len) * static_cast<double>(s.v_dim);
  const double kv_elements = static_cast<double>(s.batch * s.kv_heads * s.kv_len) * width;
  d.dram_read = (q_elements * es + kv_elements * kv_es) * units::B;
  d.dram_write = o_elements * output_bytes_of(s.dtype) * units::B;

  if (s.append == 1 || (s.append < 0 && m.kernels == KernelSet::library)) {
    c.prepares = true;
    const double new_kv = static_cast<double>(s.batch * s.kv_heads * s.q_len) * width;
    c.prepare = prepare_demand(q_elements, new_kv, es, kv_es, m);
  }
  return c;
}

namespace {

/// The merge of `splits` partial (O, log-sum-exp) per query head.
Demand combine_demand(double rows, double v_dim, double splits, double out_bytes, const Machine& m) {
  Demand d;
  d.plan.ctas = static_cast<std::int64_t>(rows);
  d.plan.ctas_per_sm = 8;
  d.plan.threads = 128;
  d.l2 = 2.0 * splits * v_dim * 4.0 * units::B;
  d.dram_write = rows * v_dim * out_bytes * units::B;
  d.step_latency = 2.0 * m.l2_latency;
  return d;
}

}  // namespace

namespace {

/// Split-KV decode of `rows` packed query rows a CTA against a stream of keys.
struct DecodeTask {
  double ctas_unsplit = 0;  ///< (sequence, KV head or head tile) pairs
  double rows = 0;          ///< packed query rows a CTA
  double context = 0;       ///< keys
  double qk_dim = 0, v_dim = 0;
  double key_bytes = 0;    ///< of one key and its value, as stored
  double out_rows = 0;     ///< query rows in all
  double kv_sets = 0;      ///< distinct key streams: what DRAM carries once
  double cached = 0;       ///< keys in the cache of one stream, whether a window hides them or not
  double table_bytes = 0;  ///< page-table entries (int32) of the pages that hold visible keys
};

/// What scattered reads over a cache of this size lose to address translation: nothing while the TLBs cover it, and no
/// more than `family.translation` once each launch starts with cold ones. The form is what published decode rows show
/// (aiconfigurator h100/h200): the loss follows the size of the whole cache, windowed or not, at the rate of one read
/// of it, and levels off at some 20 us from 250 MB on. Page walks themselves were not probed.
Seconds translation_loss(const DecodeTask& t, const Machine& m, const FamilyScalars& family) {
  if (family.translation <= Seconds{}) return Seconds{};
  const Seconds once = t.kv_sets * t.cached * t.key_bytes * units::B / m.dram_read;
  return family.translation * (1.0 - std::exp(-(once / family.translation)));
}

/// Keys a step, and how many CTAs an SM the split heuristic aims at: twice the SMs, one running at a time (what FA3's,
/// FlashInfer's and TensorRT-LLM's planners do on these cards, within a factor of two).
constexpr double kKeysPerStep = 64;
constexpr double kCtasAimedAt = 2;

AttentionChoice split_decode(const DecodeTask& t, DType dtype, const Machine& m, const FamilyScalars& family) {
  AttentionChoice c;
  c.family = &family;
  c.combine_family = &m.combine;
  const double es = bytes_of(dtype), out_es = output_bytes_of(dtype);
  const double room = std::floor(m.sm_count * kCtasAimedAt / t.ctas_unsplit);
  const double most = std::max(1.0, std::floor(t.context / (2 * kKeysPerStep)));
  const double splits = std::clamp(room, 1.0, most);
  c.plan.splits = static_cast<std::int64_t>(splits);
  c.plan.kv_tile = static_cast<std::int64_t>(kKeysPerStep);
  c.plan.packed_heads = static_cast<std::int64_t>(t.rows);

  Demand& d = c.main;
  d.plan.ctas = static_cast<std::int64_t>(t.ctas_unsplit * splits);
  d.plan.ctas_per_sm = 1;
  d.plan.threads = 256;
  d.plan.steps = d.plan.longest = ceil_div(ceil_div(t.context, splits), kKeysPerStep);
  const double instruction_rows = std::ceil(t.rows / 16) * 16;
  block_demand(d, instruction_rows, kKeysPerStep, t.qk_dim, t.v_dim, m.gpu.sm.tensor_flop_per_clk[dtype],
               t.key_bytes / (t.qk_dim + t.v_dim), 1.0, m, family);
  d.exposed_clk = 0;
  // the chain of a step grows with the bytes of its keys; the scalar is that of 64 keys of 2 x 128 at 16 bits
  constexpr double kReferenceKeyBytes = 512;
  d.step_latency = family.step * (t.key_bytes / kReferenceKeyBytes);
  d.dram_read = (t.kv_sets * t.context * t.key_bytes + t.out_rows * t.qk_dim * es + t.table_bytes) * units::B;
  d.dram_write = t.out_rows * t.v_dim * out_es * units::B;
  d.in_flight = family.in_flight;
  d.chain = translation_loss(t, m, family);
  if (splits > 1) {
    c.combines = true;
    c.combine = combine_demand(t.out_rows, t.v_dim, splits, out_es, m);
  }
  return c;
}

}  // namespace

namespace {

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

/// Our own kernel, cut into `splits`: a CTA walks whole tiles of keys through a ring of `stages`.
void cut_own_decode(Demand& d, const DecodeTask& t, const DecodeVariant& v, double splits) {
  const double tiles = ceil_div(t.context, static_cast<double>(v.kv_tile));
  d.plan.ctas = static_cast<std::int64_t>(t.ctas_unsplit * splits);
  d.plan.steps = d.plan.longest = ceil_div(tiles, splits);
}

Demand own_decode_demand(const DecodeTask& t, const DecodeVariant& v, const Machine& m, const FamilyScalars& family) {
  Demand d;
  const double keys = static_cast<double>(v.kv_tile), stages = static_cast<double>(v.stages);
  d.plan.ctas_per_sm = v.ctas_per_sm;
  d.plan.threads = 160;  // a consumer warp for every 16 keys of the tile, and the producer
  block_demand(d, static_cast<double>(v.rows), keys, t.qk_dim, t.v_dim, m.gpu.sm.tensor_flop_per_clk[DType::bf16],
               t.key_bytes / (t.qk_dim + t.v_dim), 1.0, m, family);
  d.exposed_clk = 0;
  d.step_latency = std::max(m.dram_latency / stages, family.step);
  const double row_bytes = 2;
  d.dram_read = (t.kv_sets * t.context * t.key_bytes + t.out_rows * t.qk_dim * row_bytes + t.table_bytes) * units::B;
  d.dram_write = t.out_rows * t.v_dim * row_bytes * units::B;
  d.in_flight = stages * keys * t.key_bytes * units::B;
  d.chain = translation_loss(t, m, family);
  return d;
}

/// One cut into `splits` with its price, kept in `best` if it is the cheapest so far.
void try_own_decode(AttentionChoice& best, Seconds& total, const DecodeTask& t, const DecodeVariant& v, double splits,
                    const Machine& m) {
  constexpr double kSplitsAtOnce = 4;  // of one query row, by as many warps
  cut_own_decode(best.main, t, v, splits);
  Demand combine;
  Seconds extra;
  if (splits > 1) {
    combine = combine_demand(t.out_rows, t.v_dim, splits, 2, m);
    combine.step_latency = (2 + splits / kSplitsAtOnce) * m.l2_latency;
    extra = price_total(combine, m, *best.combine_family, total) + m.gap_graph;
  }
  const Seconds here = extra + price_total(best.main, m, *best.family, total - extra);
  if (here >= total) return;
  total = here;
  best.combine = combine;
  best.combines = splits > 1;
  best.plan.splits = static_cast<std::int64_t>(splits);
}

/// Splits: the cheapest of none and as many as give each SM 1, 2, ... items; an item is two tiles of keys at least.
AttentionChoice plan_own_decode(const DecodeTask& t, const DecodeVariant& v, const Machine& m,
                                const AttentionPlan* as_cut) {
  AttentionChoice c;
  c.family = &*m.own.decode;
  c.combine_family = m.own.combine ? &*m.own.combine : &m.combine;
  c.plan.kv_tile = v.kv_tile;
  c.plan.packed_heads = static_cast<std::int64_t>(t.rows);
  c.main = own_decode_demand(t, v, m, *c.family);
  constexpr double kMostTurns = 3, kLeastTiles = 2, kMostSplits = 64;
  const double tiles = ceil_div(t.context, static_cast<double>(v.kv_tile));
  const double most = std::min(kMostSplits, std::floor(tiles / kLeastTiles));
  Seconds best = 1e30 * units::s;
  double last_steps = tiles;
  try_own_decode(c, best, t, v, as_cut ? static_cast<double>(as_cut->splits) : 1, m);
  if (as_cut) return c;
  for (double items = 1; items <= kMostTurns * static_cast<double>(v.ctas_per_sm); ++items) {
    const double splits = std::min(most, std::floor(items * m.sm_count / t.ctas_unsplit));
    if (splits <= 1) continue;
    const double steps = ceil_div(tiles, splits);
    if (steps < last_steps) try_own_decode(c, best, t, v, splits, m);  // else only one more partial result
    last_steps = steps;
    if (splits >= most) break;
  }
  cut_own_decode(c.main, t, v, static_cast<double>(c.plan.splits));
  return c;
}

}  // namespace

AttentionChoice plan_decode(const AttentionDecode& s, const Machine& m, const AttentionPlan* as_cut) {
  const DecodeTask t = decode_task(s);
  if (const DecodeVariant* own = own_decode_kernel(s, m)) return plan_own_decode(t, *own, m, as_cut);
  // one query head a KV head runs on ordinary lanes, a packed group on tensor cores: two kernels, two families
  return split_decode(t, s.dtype, m, s.q_heads == s.kv_heads ? m.decode_single : m.decode);
}

AttentionChoice plan_mla_decode(const MlaDecode& s, const Machine& m) {
  DecodeTask t;
  constexpr double kRowsPerCta = 64;
  t.kv_sets = static_cast<double>(s.batch);
  t.ctas_unsplit = t.kv_sets * ceil_div(static_cast<double>(s.heads), kRowsPerCta);
  t.rows = std::min(static_cast<double>(s.heads), kRowsPerCta);
  t.context = t.cached = std::max(1.0, static_cast<double>(s.context));
  t.qk_dim = static_cast<double>(s.latent + s.rope);
  t.v_dim = static_cast<double>(s.latent);
  t.key_bytes = t.qk_dim * bytes_of(s.kv_dtype);  // the value is a view of the key
  t.out_rows = static_cast<double>(s.batch * s.heads);
  return split_decode(t, s.dtype, m, m.mla);
}

}  // namespace plumbline
