#include "model/stacks/common/plan_attention.hpp"

#include <algorithm>
#include <cmath>

#include "model/engine/tensor_path.hpp"
#include "model/engine/timing.hpp"
#include "model/stacks/common/plan_attention_internal.hpp"
#include "model/stacks/own/own_kernels.hpp"
#include "ops/op/work.hpp"

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

void score_demand(Demand& d, double rows, double keys, double qk_dim, double v_dim, double flop_per_clk,
                  double kv_bytes, const Rates& m) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double scores = rows * keys;
  d.tensor_clk = 2.0 * scores * (qk_dim + v_dim) / flop_per_clk;
  d.sfu_clk = scores / sm.sfu_op_per_clk;
  d.fp32_clk = scores * kSoftmaxOps / (sm.fp32_flop_per_clk / 2);
  d.issue_clk = scores * (kSoftmaxOps + 1) / static_cast<double>(sm.warp_size) / sm.issue_per_clk;
  const double kv_tile = keys * (qk_dim + v_dim) * kv_bytes;
  d.smem_clk = 2.0 * kv_tile / sm.smem_bytes_per_clk.in(units::B);
  d.l2 = kv_tile * units::B;
}

namespace {

AttentionChoice plan_own_prefill(const AttentionPrefill& s, const PrefillVariant& own, const Rates& m) {
  AttentionChoice c;
  c.family = &*m.own.prefill;
  c.plan.q_tile = own.q_tile;
  c.plan.kv_tile = own.kv_tile;
  const double q_tile = static_cast<double>(own.q_tile), kv_tile = static_cast<double>(own.kv_tile);
  const double width = static_cast<double>(s.qk_dim);  // the kernel's: it takes no other
  const BlockCount blocks = visited_blocks(s, q_tile, kv_tile);
  Demand& d = c.main;
  d.plan.ctas = s.batch * s.q_heads * static_cast<std::int64_t>(blocks.tiles);
  d.plan.ctas_per_sm = own.ctas_per_sm;
  d.plan.threads = m.path.threads(q_tile);
  d.plan.steps = blocks.total / blocks.tiles;
  d.plan.longest = blocks.longest;
  d.step_latency = c.family->step;
  score_demand(d, q_tile, kv_tile, width, width, m.gpu.sm.tensor_flop_per_clk[s.dtype], bytes_of(s.kv_dtype), m);
  const double softmax = std::max({d.sfu_clk, d.fp32_clk, d.issue_clk});
  d.exposed_clk = c.family->exposed * std::min(softmax, d.tensor_clk / c.family->efficiency / c.family->tensor_burst);
  // the first block's softmax has no other block to hide under, and the result leaves through shared memory as a
  // GEMM's does (family own.gemm: 20 bytes a clock); rows behind the last query do not
  constexpr double kStoreBytesPerClk = 20;
  // nothing hides the first tile's way: the tensor maps' from memory, then that of Q and the first keys
  d.serial_latency = 2.0 * m.gpu.memory.latency;
  d.serial_latency_of = "to load tensor maps and what they describe";
  const double rows = std::min(q_tile, static_cast<double>(s.q_len));
  d.once_clk = softmax + rows * width * output_bytes_of(s.dtype) / kStoreBytesPerClk;
  return c;
}

}  // namespace

Demand prepare_demand(const AttentionPrefill& s, const Rates& m) {
  const double tokens = static_cast<double>(s.batch * s.q_len);
  // Latent attention (keys wider than values by the rotated part) rotates only that part of its queries, in place, four
  // to a warp, and reads one narrow row a token; else a warp takes a whole query, and all keys and values are read.
  const bool latent = s.qk_dim > s.v_dim;
  constexpr double kLatentRowsPerWarp = 4, kWarps = 8;
  const double rows = tokens * static_cast<double>(s.q_heads);
  const double q_elements = rows * static_cast<double>(latent ? s.qk_dim - s.v_dim : s.qk_dim);
  const double wide = static_cast<double>(s.qk_dim + s.v_dim);
  const double new_kv = tokens * static_cast<double>(s.kv_heads) * wide;
  const double es = bytes_of(s.dtype);
  Demand p;
  const double kv_es = bytes_of(s.kv_dtype);
  // The attention itself counts the keys that its window shows it, as stored. What new keys were wider before is read
  // here, and so are new keys that no query sees, and the frequencies of the rotation (fp32).
  const double seen =
      static_cast<double>(s.batch * s.kv_heads) * wide * std::min(visible_keys(s), static_cast<double>(s.q_len));
  const double frequencies = 4 * static_cast<double>(s.qk_dim) / 2;
  const double read_kv = latent ? std::max(tokens * wide * es, new_kv * es - seen * kv_es + frequencies) : new_kv * es;
  p.dram_read = (q_elements * es + read_kv) * units::B;
  p.dram_write = (q_elements * es + new_kv * kv_es) * units::B;
  // a warp's way (sequence length, data, rotation table) is a chain of latencies; as many as fit on an SM are on it
  // side by side
  p.plan.ctas = static_cast<std::int64_t>(ceil_div(rows, kWarps * (latent ? kLatentRowsPerWarp : 1)));
  p.plan.ctas_per_sm = 8;
  p.plan.threads = 256;
  p.once_clk = m.prepare.start_clk / static_cast<double>(p.plan.ctas_per_sm);
  return p;
}

AttentionChoice plan_prefill(const AttentionPrefill& s, const Rates& m) {
  AttentionChoice c;
  if (const PrefillVariant* own = own_prefill_kernel(s, m)) c = plan_own_prefill(s, *own, m);
  else if (m.attention == AttentionStack::flash_attention) c = plan_flash_prefill(s, m);
  else c = plan_library_prefill(s, m);
  const double es = bytes_of(s.dtype);
  const double queries = static_cast<double>(s.batch * s.q_heads * s.q_len);
  // keys that the window hides from every query are never fetched
  const double kv_elements = static_cast<double>(s.batch * s.kv_heads * (s.qk_dim + s.v_dim)) * visible_keys(s);
  Demand& d = c.main;
  d.dram_read = (queries * static_cast<double>(s.qk_dim) * es + kv_elements * bytes_of(s.kv_dtype)) * units::B;
  d.dram_write = queries * static_cast<double>(s.v_dim) * output_bytes_of(s.dtype) * units::B;
  if (s.append == 1 || (s.append < 0 && m.kernels == KernelSet::library)) {
    c.prepares = true;
    const bool flash = m.attention == AttentionStack::flash_attention;
    c.prepare = flash ? append_demand(s, m) : prepare_demand(s, m);
  }
  return c;
}

Demand combine_demand(double rows, double v_dim, double splits, double out_bytes, const Rates& m) {
  Demand d;
  d.plan.ctas = static_cast<std::int64_t>(rows);
  d.plan.ctas_per_sm = 8;
  d.plan.threads = 128;
  d.l2 = 2.0 * splits * v_dim * 4.0 * units::B;
  const Bytes partials = rows * splits * (v_dim + 1) * 4.0 * units::B;
  if (partials > m.l2_capacity) d.dram_read = d.dram_write = partials;
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

}  // namespace

AttentionChoice plan_decode(const AttentionDecode& s, const Rates& m, const AttentionPlan* as_cut) {
  const DecodeTask t = decode_task(s);
  if (const DecodeVariant* own = own_decode_kernel(s, m)) return plan_own_decode(s, t, *own, m, as_cut);
  if (m.attention == AttentionStack::flash_attention) return plan_flash_decode(s, t, m);
  return plan_library_decode(s, t, m);
}

namespace {

/// Keys a step, and how many CTAs an SM the split heuristic aims at: twice the SMs, one running at a time (what
/// FlashMLA's planner does, within a factor of two).
constexpr double kKeysPerStep = 64;
constexpr double kCtasAimedAt = 2;

AttentionChoice plan_latent(const DecodeTask& t, DType dtype, const Rates& m) {
  const FamilyScalars& family = m.mla;
  AttentionChoice c;
  c.family = &family;
  c.combine_family = &m.combine;
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
  score_demand(d, instruction_rows, kKeysPerStep, t.qk_dim, t.v_dim, m.gpu.sm.tensor_flop_per_clk[dtype],
               t.key_bytes / (t.qk_dim + t.v_dim), m);
  // the chain of a step grows with the bytes of its keys; the scalar is that of 64 keys of 2 x 128 at 16 bits
  constexpr double kReferenceKeyBytes = 512;
  d.step_latency = family.step * (t.key_bytes / kReferenceKeyBytes);
  decode_traffic(d, t, dtype, splits > 1 ? ResultsLeave::by_the_merge : ResultsLeave::here);
  d.in_flight = family.in_flight;
  if (splits > 1) {
    c.combines = true;
    c.combine = combine_demand(t.out_rows, t.v_dim, splits, output_bytes_of(dtype), m);
  }
  return c;
}

}  // namespace

AttentionChoice plan_mla_decode(const MlaDecode& s, const Rates& m) {
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
  return plan_latent(t, s.dtype, m);
}

}  // namespace plumbline
