// Attention backward as FlashAttention has it. A CTA keeps a block of keys and values and walks the queries that see
// it: S = Q K^T and dP = dO V^T, then dV += P^T dO, dK += dS^T Q, and dQ += dS K by atomic adds in fp32. Tiles and how
// warps share them: csrc/flash_attn/src/flash_bwd_launch_template.h (FA2), hopper/flash_bwd_launch_template.h (FA3).
//
// Nobody's backward passes by themselves are on file. The waits of a step are those of the forward pass's scalars,
// by the scores of a step: no row is reduced and nothing rescaled here, but both P and dS go through shared memory.
#include "model/stacks/flash_attention/plan_backward.hpp"

#include <algorithm>

#include "model/engine/tensor_path.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/common/plan_attention.hpp"
#include "model/stacks/common/plan_stream.hpp"
#include "model/stacks/common/warm.hpp"

namespace plumbline {
namespace {

/// Rows of queries and of keys of a step, and into how many parts warps (FA2) or warpgroups (FA3) cut the rows of each
/// kind of product; the rest of `groups` cuts its columns.
struct Tile {
  double width = 0, queries = 0, keys = 0;
  double groups = 8, scores_rows = 4, keys_rows = 4, queries_rows = 4;
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

// by their names compiled for 64, 128 and 256 columns (H200, cuDNN 9.19)
constexpr Tile kCudnn[] = {{64, 128, 128, 2, 2, 2, 2}, {128, 64, 128, 2, 1, 2, 1}, {256, 64, 64, 2, 1, 2, 1}};

bool runs_fa3(const Rates& m, bool mma_sync) { return !mma_sync && m.path.kind != TensorPath::Kind::mma_sync; }

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
                      operand_elements(t.queries, t.keys, v, t.groups, t.scores_rows) +
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
double loads_exposed(const Tile& t, double qk, double v, const AttentionBackward& s, const Rates& m) {
  const double es = bytes_of(s.dtype), stage = t.queries * (qk + v) * es;
  const double held = t.keys * (qk + v) * es + 2 * t.queries * t.keys * es + t.queries * qk * 4.0;
  if (held + 2 * stage <= m.gpu.sm.smem_per_block.in(units::B)) return 0;
  return (stage * units::B / m.l2_per_sm).in(units::s)*m.clock.in(units::Hz);
}

/// A pass over that many bytes, of which DRAM carries those that L2 does not hold.
struct Pass {
  double read = 0, written = 0, fp32 = 0;
  double dram_read = 0, dram_written = 0;
};

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

}  // namespace

void answer_backward(const AttentionBackward& s, const FamilyScalars& family, const FamilyScalars& streams,
                     const Question& q, Answer& out, BackwardKernels kernels) {
  const Rates& m = q.rates;
  const bool mma_sync = kernels == BackwardKernels::flash2, fa3 = runs_fa3(m, mma_sync);
  const bool cudnn = kernels == BackwardKernels::cudnn && fa3;
  const Tile t = tile_of(s, fa3, cudnn);
  const double step = cudnn ? t.width : 32;  // columns that are compiled apart
  const double qk = std::min(t.width, ceil_div(static_cast<double>(s.qk_dim), step) * step);
  const double v = std::min(t.width, ceil_div(static_cast<double>(s.v_dim), step) * step);
  const double halves = std::max(1.0, ceil_div(static_cast<double>(std::max(s.qk_dim, s.v_dim)), t.width));
  const double es = bytes_of(s.dtype), batch = static_cast<double>(s.batch);
  const double queries = batch * static_cast<double>(s.q_heads * s.q_len);
  const double keys =
      batch * static_cast<double>(s.kv_heads) * visible_keys(forward_of(s)) * static_cast<double>(s.qk_dim + s.v_dim);
  const double group = static_cast<double>(s.q_heads) / static_cast<double>(s.kv_heads);
  const double q_values = queries * static_cast<double>(s.qk_dim), o_values = queries * static_cast<double>(s.v_dim);
  const double sums = 4.0 * q_values, per_row = 4.0 * queries, shared = group > 1 ? group * keys * es : 0;
  const Bytes all = q.work.bytes() + (sums + per_row + shared) * units::B;
  const double spilled = all > m.l2_kept ? 1 : 0;  // what one launch leaves for another goes through DRAM

  Demand main;
  cut(main, t, s, fa3);
  step_demand(main, t, qk * halves, v * halves, s, m, mma_sync);
  main.exposed_clk = family.step_clk * t.queries * t.keys / (128.0 * (fa3 ? 128 : 64));
  if (cudnn) main.exposed_clk += loads_exposed(t, qk, v, s, m);
  main.once_clk = masked_blocks(forward_of(s), t.queries, t.keys, main.plan.steps) * mask_clk(t.queries * t.keys, m) +
                  family.start_clk;
  main.dram_read = ((q_values + keys + spilled * o_values) * es + per_row + spilled * per_row) * units::B;
  main.dram_write = (group > 1 ? spilled * shared : keys * es) * units::B + spilled * sums * units::B;

  out.sign(family);
  const bool warm = q.warmth == Warmth::everything && all <= m.l2_kept;
  const auto pass = [&](const char* kernel, const Pass& p) {
    Work w;
    w.read = p.read * units::B;
    w.write = p.written * units::B;
    w.fp32 = p.fp32 * units::FLOP;
    Demand& d = out.launch(kernel, streams) = stream_demand(w, m, warm);
    if (warm) return;
    d.dram_read = p.dram_read * units::B;
    d.dram_write = p.dram_written * units::B;
  };
  // the sums are cleared here too
  pass("row sums of dO O",
       {2 * o_values * es, per_row + sums, 2 * o_values, 2 * o_values * es, spilled * (per_row + sums)});
  launch_as_found(out, q, "attention backward", main, family);
  pass("dQ", {sums, q_values * es, q_values, spilled * sums, q_values * es});
  if (group > 1) {
    pass("dK and dV over query heads", {shared, keys * es, group * keys, spilled * shared, keys * es});
  }
}

}  // namespace plumbline
