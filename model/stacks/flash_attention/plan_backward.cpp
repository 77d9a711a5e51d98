// Attention backward as FlashAttention has it. A CTA keeps a block of keys and values and walks the queries that see
// it: S = Q K^T and dP = dO V^T, then dV += P^T dO, dK += dS^T Q, and dQ += dS K by atomic adds in fp32. Tiles and how
// warps share them: csrc/flash_attn/src/flash_bwd_launch_template.h (FA2), hopper/flash_bwd_launch_template.h (FA3).
//
// Nobody's backward passes by themselves are on file. The waits of a step are those of the forward pass's scalars,
// by the scores of a step: no row is reduced and nothing rescaled here, but both P and dS go through shared memory.
#include "model/stacks/flash_attention/plan_backward.hpp"

#include <algorithm>
#include <vector>

#include "arch/error.hpp"
#include "model/engine/tensor_path.hpp"
#include "model/stacks/common/deal_in_order.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/common/plan_attention.hpp"
#include "model/stacks/common/plan_stream.hpp"
#include "model/stacks/common/warm.hpp"
#include "model/stacks/flash_attention/second_backward.hpp"

namespace plumbline {
namespace {

/// Rows of queries and of keys of a step, and into how many parts warps (FA2) or warpgroups (FA3) cut the rows of each
/// kind of product; the rest of `groups` cuts its columns.
struct Tile {
  double width = 0, queries = 0, keys = 0;
  double groups = 8, scores_rows = 4, keys_rows = 4, queries_rows = 4;
  bool holds_values = false;  ///< in registers
};

constexpr Tile kFa2[] = {{64, 128, 128, 8, 4, 4, 4},
                         {96, 64, 128, 8, 2, 4, 4},
                         {128, 64, 128, 8, 2, 4, 2},
                         {192, 64, 64, 8, 4, 2, 2},
                         {256, 64, 64, 8, 4, 2, 2}};
// two consumer warpgroups; three at 128 columns without a mask are counted as two
constexpr Tile kFa3[] = {{64, 128, 128, 2, 2, 2, 2},
                         {96, 64, 128, 2, 1, 2, 1},
                         {128, 80, 128, 2, 1, 2, 1},
                         {192, 64, 96, 2, 1, 2, 1},
                         {256, 64, 80, 2, 1, 2, 1}};

// by their names compiled for 64, 128, 192 and 256 columns (H200, cuDNN 9.19)
constexpr Tile kCudnn[] = {
    {64, 64, 128, 2, 1, 2, 1}, {128, 64, 128, 2, 1, 2, 1}, {192, 64, 64, 2, 1, 2, 1}, {256, 64, 64, 2, 1, 2, 1}};

bool runs_fa3(const Rates& m, bool mma_sync) { return !mma_sync && m.path.kind != TensorPath::Kind::mma_sync; }

Tile second_tile_of(const AttentionBackward& s, const Rates& m) {
  const double width = std::min(256.0, flash_attention::second_width(std::max(s.qk_dim, s.v_dim)));
  const flash_attention::SecondBackwardTile t = flash_attention::second_backward_tile(width, m);
  return {width,         t.queries,   t.keys,         flash_attention::kSecondBackwardWarps,
          t.scores_rows, t.keys_rows, t.queries_rows, t.holds_values};
}

/// Wider heads than any that is compiled take the widest one's tile.
Tile tile_of(const AttentionBackward& s, bool fa3, bool cudnn) {
  const auto width = static_cast<double>(std::max(s.qk_dim, s.v_dim));
  const std::span<const Tile> tiles = cudnn ? std::span<const Tile>(kCudnn)
                                      : fa3 ? std::span<const Tile>(kFa3)
                                            : std::span<const Tile>(kFa2);
  const auto found = std::find_if(tiles.begin(), tiles.end(), [&](const Tile& t) { return width <= t.width; });
  Tile t = found == tiles.end() ? tiles.back() : *found;
  if (fa3 && t.width == 128 && (s.causal || s.window > 0)) t.queries = 64;
  return t;
}

/// Elements that a product rows x cols, `depth` deep, reads from shared memory where its rows are cut in `parts` of
/// `groups`: each part reads its own rows, and all columns of its share.
double operand_elements(double rows, double cols, double depth, double groups, double parts) {
  return depth * (rows * groups / parts + cols * parts);
}

/// Work of a step: one tile of queries against the CTA's keys.
void step_demand(Demand& d, const Tile& t, double qk, double v, const AttentionBackward& s, const Rates& m,
                 bool mma_sync) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double es = bytes_of(s.dtype), scores = t.queries * t.keys;
  d.tensor_clk = 2.0 * scores * (3 * qk + 2 * v) /
                 (mma_sync ? mma_sync_flop_per_clk(s.dtype, m) : sm.tensor_flop_per_clk[s.dtype]);
  d.sfu_clk = scores / sm.sfu_op_per_clk;
  // scale and subtract in one instruction; exp's argument; dP minus the row's sum, times P; two conversions
  constexpr double kOps = 6;
  d.fp32_clk = scores * kOps / (sm.fp32_flop_per_clk / 2);
  d.issue_clk = scores * (kOps + 1) / static_cast<double>(sm.warp_size) / sm.issue_per_clk;
  const double read = operand_elements(t.queries, t.keys, qk, t.groups, t.scores_rows) +
                      operand_elements(t.queries, t.holds_values ? 0 : t.keys, v, t.groups, t.scores_rows) +
                      operand_elements(t.keys, v, t.queries, t.groups, t.keys_rows) +
                      operand_elements(t.keys, qk, t.queries, t.groups, t.keys_rows) +
                      operand_elements(t.queries, qk, t.keys, t.groups, t.queries_rows);
  const double written = 2 * scores + t.queries * (qk + v);  // P and dS, and the tile of Q and dO
  d.smem_clk = (read + written) * es / sm.smem_bytes_per_clk.in(units::B);
  // Q and dO come, dQ's fp32 sums go; log-sum-exp and row sums
  d.l2 = (t.queries * (qk + v) * es + t.queries * qk * 4.0 + 8.0 * t.queries) * units::B;
}

/// cuDNN's: Q and dO of a step come while the one before is multiplied, where a second stage of them fits beside keys,
/// values, scores, their gradients and dQ's fp32 sums; else between the two.
/// A block's own keys and values and its first queries too: the next block's come before the last one has ended, or not.
struct ExposedLoads {
  double step_clk = 0, block_clk = 0;
};
ExposedLoads loads_exposed(const Tile& t, double qk, double v, const AttentionBackward& s, const Rates& m) {
  const double es = bytes_of(s.dtype), stage = t.queries * (qk + v) * es, block = t.keys * (qk + v) * es;
  const double held = block + 2 * t.queries * t.keys * es + t.queries * qk * 4.0;
  if (held + 2 * stage <= m.gpu.sm.smem_per_block.in(units::B)) return {};
  const auto clk = [&](double bytes) { return (bytes * units::B / m.l2_per_sm).in(units::s)*m.clock.in(units::Hz); };
  return {clk(stage), clk(block + stage)};
}

/// A pass over that many bytes, of which DRAM carries those that L2 does not hold.
struct Pass {
  double read = 0, written = 0, fp32 = 0;
  double dram_read = 0, dram_written = 0;
};

Demand demand_of(const Pass& p, const Rates& m, bool warm) {
  Work w;
  w.read = p.read * units::B;
  w.write = p.written * units::B;
  w.fp32 = p.fp32 * units::FLOP;
  Demand d = stream_demand(w, m, warm);
  if (warm) return d;
  d.dram_read = p.dram_read * units::B;
  d.dram_write = p.dram_written * units::B;
  return d;
}

/// Of AttentionPrefill's block count: blocks of queries that see a block of keys, which is the same count with the parts
/// of keys and queries exchanged; the mean over CTAs is exact.
void cut(Demand& d, const Tile& t, const AttentionBackward& s, bool fa3) {
  const BlockCount blocks = visited_blocks(forward_of(s), t.queries, t.keys);
  const double parts = ceil_div(static_cast<double>(s.kv_len), t.keys);
  d.plan.ctas = static_cast<std::int64_t>(static_cast<double>(s.batch * s.q_heads) * parts);
  d.plan.ctas_per_sm = 1;
  d.plan.threads = fa3 ? 384 : 256;
  d.plan.steps = blocks.total / parts;
  d.plan.longest = std::max(d.plan.steps, s.causal ? blocks.tiles : blocks.total / parts);
}

/// Tiles of queries that see each block of keys, from the first block on; behind a window the mean of all.
std::vector<double> tiles_of_blocks(const Tile& t, const AttentionBackward& s) {
  const double queries = static_cast<double>(s.q_len), keys = static_cast<double>(s.kv_len);
  const double parts = ceil_div(keys, t.keys), tiles = ceil_div(queries, t.queries);
  constexpr double kMostApart = 4096;
  const bool windowed = s.window > 0 && s.window < s.kv_len;
  std::vector<double> steps;
  if (windowed || parts > kMostApart) {
    const double mean = visited_blocks(forward_of(s), t.queries, t.keys).total / parts;
    steps.assign(static_cast<std::size_t>(std::min(parts, kMostApart)), mean * std::max(1.0, parts / kMostApart));
    return steps;
  }
  for (double part = 0; part < parts; ++part) {
    const double first = std::clamp(part * t.keys - (keys - queries), 0.0, queries - 1);
    steps.push_back(s.causal ? tiles - std::floor(first / t.queries) : tiles);
  }
  return steps;
}

/// Buffers that FlashAttention-2 sums dQ in, of which CTAs of a head have one each: a CTA takes every so many-th block of keys, and
/// adds to its buffer alone (compute_dq_dk_dv_seqk_parallel() and flash_bwd_launch_template.h). One that all add to where sums may be
/// taken in any order.
double sum_buffers(const AttentionBackward& s, const Rates& m) {
  return s.deterministic ? ceil_div(std::floor(m.sm_count), static_cast<double>(s.batch * s.q_heads)) : 1;
}

/// A CTA's blocks together, in tiles of queries; `once`: what a block takes beside those of the first one.
std::vector<double> taken_in_turn(const std::vector<double>& tiles, double ctas, double once) {
  std::vector<double> taken(std::min(tiles.size(), static_cast<std::size_t>(ctas)), -once);
  for (std::size_t block = 0; block < tiles.size(); ++block) taken[block % taken.size()] += tiles[block] + once;
  return taken;
}

/// cuDNN's launch has as many CTAs as there are SMs, each of which takes the next block of keys of a head when it has done with
/// one: by its grids, and by 51 recorded launches with a causal mask, of which in no other order and no dealing in turn are as few
/// off (H200, cuDNN 9.19: data/measurements/h200/pytorch/attention_drawn.jsonl).
void deal(Demand& d, const Tile& t, const AttentionBackward& s, double step_clk, double block_once_clk,
          const Rates& m) {
  const double heads = static_cast<double>(s.batch * s.q_heads), once = block_once_clk / step_clk;
  std::vector<double> items = tiles_of_blocks(t, s);
  if (s.deterministic) items = taken_in_turn(items, sum_buffers(s, m), once);
  const DealtInOrder dealt = deal_in_order(heads, items, once, m.sm_count);
  d.plan.ctas = static_cast<std::int64_t>(dealt.ctas);
  d.plan.steps = dealt.mean;
  d.plan.longest = dealt.steps;
  d.plan.shortest_first = true;  // nothing more is dealt out
  d.dealt_clk = dealt.steps * step_clk + dealt.items * block_once_clk;
  d.exposed_clk = d.once_clk = 0;
  d.overlap = kBesideTheChain;
}

/// FlashAttention-2's CTAs: blocks in which the mask cuts, and ends of keys, take longer by as much as masks do.
void deal_second(Demand& d, const Tile& t, const AttentionBackward& s, double qk, double v, const Rates& m,
                 const FamilyScalars& family) {
  using namespace flash_attention;
  const SecondBackwardTile tile{t.queries, t.keys, t.scores_rows, t.keys_rows, t.queries_rows, t.holds_values};
  const double step_clk = second_backward_clk(tile, d, qk, v, s.dtype, m, family);
  const double masked = s.causal ? std::max(1.0, t.keys / t.queries) : 0;
  const double once = family.start_clk + masked * second_mask_clk(t.queries * t.keys, m);
  deal(d, t, s, step_clk, once, m);
}

double waves_of(const Demand& d, const Rates& m) {
  return std::ceil(static_cast<double>(d.plan.ctas) / (m.sm_count * static_cast<double>(d.plan.ctas_per_sm)));
}

/// A thread of cuDNN's sum over query heads has eight elements of a key, 128 threads a CTA, and adds one head after the other: by
/// its grids, and 25 us for 64 heads of 8192 keys, whose bytes take 15.
Seconds walk_over_heads(const AttentionBackward& s, double width, double group, const Rates& m) {
  constexpr double kElements = 128 * 8, kResident = 16;
  const double rows = std::max(1.0, std::floor(kElements / width));
  const double ctas = ceil_div(static_cast<double>(s.kv_len), rows) * static_cast<double>(s.batch * s.kv_heads);
  return ceil_div(ctas, m.sm_count * kResident) * group * m.l2_latency;
}

/// A thread of FlashAttention-2's sum over buffers (flash_bwd_convert_dq_kernel) adds them up one behind the other, and waits for each
/// four of its columns of each, and once more for a buffer: 1.0, 1.5, 2.0 and 2.7 us a buffer of 4, 6, 8 and 12 such loads, by grids that
/// leave SMs free and sums that L2 holds (H200, attention_drawn_tenth). `missed`: the share of sums that DRAM is waited for.
Seconds walk_over_buffers(const AttentionBackward& s, const Tile& t, double qk, double buffers, double missed,
                          const Rates& m) {
  constexpr double kThreads = 256, kColumns = 4, kResident = 8;
  const double loads = t.queries * qk / (kThreads * kColumns) + 1;
  const Seconds l2 = 0.5 * (1 + m.gpu.l2.far_latency_ratio) * m.gpu.l2.latency;
  const double ctas = ceil_div(static_cast<double>(s.q_len), t.queries) * static_cast<double>(s.batch * s.q_heads);
  return buffers * loads * ((1 - missed) * l2 + missed * m.gpu.memory.latency) * ceil_div(ctas, m.sm_count * kResident);
}

/// Of 84 recorded launches of cuDNN's (convert_dq_to_16bits) the long ones reach that share of what other passes do: a head's rows go
/// to rows of all heads.
constexpr double kScattered = 0.83;

/// Of values. Narrower ones than keys (128 beside 192, the only ones seen) are not filled up to the keys' columns by cuDNN.
double value_columns(const Tile& t, const AttentionBackward& s, double step, bool cudnn) {
  const double compiled = cudnn && s.v_dim < s.qk_dim ? 64 : step;
  return std::min(t.width, ceil_div(static_cast<double>(s.v_dim), compiled) * compiled);
}

/// The five products' launch, but for what DRAM carries. `qk`, `v`: compiled columns of one of a head's `halves`.
Demand products_of(const AttentionBackward& s, const Tile& t, double qk, double v, double halves,
                   const FamilyScalars& family, BackwardKernels kernels, const Rates& m) {
  const bool mma_sync = kernels == BackwardKernels::flash2, fa3 = runs_fa3(m, mma_sync);
  const bool cudnn = kernels == BackwardKernels::cudnn && fa3;
  Demand main;
  cut(main, t, s, fa3);
  step_demand(main, t, qk * halves, v * halves, s, m, mma_sync);
  main.exposed_clk = family.step_clk * t.queries * t.keys / (128.0 * (fa3 ? 128 : 64));
  const ExposedLoads loads = cudnn ? loads_exposed(t, qk, v, s, m) : ExposedLoads{};
  main.exposed_clk += loads.step_clk;
  if (cudnn) main.exposed_clk += end_check_clk(s.kv_len, t.keys, t.queries * t.keys, m);
  main.once_clk = masked_blocks(forward_of(s), t.queries, t.keys, main.plan.steps) * mask_clk(t.queries * t.keys, m) +
                  family.start_clk;
  if (cudnn) {
    // dQ's fp32 sums of a step are written to shared memory, and read there, before they go to L2
    main.smem_clk += 2 * t.queries * qk * halves * 4.0 / m.gpu.sm.smem_bytes_per_clk.in(units::B);
    deal(main, t, s, step_alone_clk(main), main.once_clk + loads.block_clk, m);
    clear_counter(main, m);
  }
  // a CTA an SM, by registers: the next block of the grid follows as soon as one has ended
  if (mma_sync) deal_second(main, t, s, qk * halves, v * halves, m, family);
  return main;
}

}  // namespace

void answer_backward(const AttentionBackward& s, const FamilyScalars& family, const FamilyScalars& streams,
                     const Question& q, Answer& out, BackwardKernels kernels) {
  const Rates& m = q.rates;
  const bool mma_sync = kernels == BackwardKernels::flash2, fa3 = runs_fa3(m, mma_sync);
  const bool cudnn = kernels == BackwardKernels::cudnn && fa3;
  if (s.deterministic && !mma_sync) {
    throw NotModelled("deterministic gradients of attention are modelled of PyTorch's kernels alone (--stack hf-sdpa)");
  }
  const Tile t = mma_sync ? second_tile_of(s, m) : tile_of(s, fa3, cudnn);
  const double step = cudnn || mma_sync ? t.width : 32;  // columns that are compiled apart
  const double qk = std::min(t.width, ceil_div(static_cast<double>(s.qk_dim), step) * step);
  const double v = value_columns(t, s, step, cudnn);
  const double halves = std::max(1.0, ceil_div(static_cast<double>(std::max(s.qk_dim, s.v_dim)), t.width));
  const double es = bytes_of(s.dtype), batch = static_cast<double>(s.batch);
  const double queries = batch * static_cast<double>(s.q_heads * s.q_len), kv_heads = static_cast<double>(s.kv_heads);
  const double keys = batch * kv_heads * visible_keys(forward_of(s)) * static_cast<double>(s.qk_dim + s.v_dim);
  const double group = static_cast<double>(s.q_heads) / kv_heads;
  const double q_values = queries * static_cast<double>(s.qk_dim), o_values = queries * static_cast<double>(s.v_dim);
  const double buffers = sum_buffers(s, m), sums = 4.0 * buffers * q_values;
  const double per_row = 4.0 * queries, shared = group > 1 ? group * keys * es : 0;
  const Bytes all = q.work.bytes() + (sums + per_row + shared) * units::B;
  const double spilled = all > m.l2_kept ? 1 : 0;  // what one launch leaves for another goes through DRAM

  Demand main = products_of(s, t, qk, v, halves, family, kernels, m);
  main.dram_read = ((q_values + keys + spilled * o_values) * es + per_row + spilled * per_row) * units::B;
  main.dram_write = (group > 1 ? spilled * shared : keys * es) * units::B + spilled * sums * units::B;

  out.sign(family);
  const bool warm = q.warmth == Warmth::everything && all <= m.l2_kept;
  const auto pass = [&](const char* kernel, const Pass& p) -> Demand& {
    return out.launch(kernel, streams) = demand_of(p, m, warm);
  };
  // the sums are cleared here too, where each row has one
  const double cleared = s.deterministic ? 0 : sums;
  if (s.deterministic) pass("clear the sums", {0, sums, 0, 0, spilled * sums});
  pass("row sums of dO O",
       {2 * o_values * es, per_row + cleared, 2 * o_values, 2 * o_values * es, spilled * (per_row + cleared)});
  launch_as_found(out, q, "attention backward", main, family);
  Demand& convert = pass("dQ", {sums, q_values * es, buffers * q_values, spilled * sums, q_values * es});
  if (cudnn) convert.dram_share = kScattered;
  if (s.deterministic) {
    // the launch's own start and the bytes are part of the walk
    const Seconds walk = walk_over_buffers(s, t, qk, buffers, std::max(0.0, 1 - m.l2_kept / all), m);
    convert.serial_latency += std::max(Seconds{}, walk - streams.fixed - sums * units::B / m.dram_read);
    convert.serial_latency_of = "to add up buffers of sums";
  }
  if (group <= 1) return;
  const auto walk_group = [&](Demand& d) {
    if (cudnn) d.step_latency = std::max(d.step_latency, walk_over_heads(s, qk, group, m) / waves_of(d, m));
  };
  const int launches = cudnn ? 2 : 1;  // cuDNN's (fmha_reduce_head) takes dK and dV apart
  for (int i = 0; i < launches; ++i) {
    const double share = 1.0 / launches;
    walk_group(pass("dK and dV over query heads", {share * shared, share * keys * es, share * group * keys,
                                                   share * spilled * shared, share * keys * es}));
  }
}

}  // namespace plumbline
