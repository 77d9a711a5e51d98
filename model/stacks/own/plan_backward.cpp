// Our own attention backward: three launches, of which the middle one has the five products (kernels/attention,
// flash_backward.cuh). A CTA keeps a block of keys and takes the queries that see it, those of all heads that share the
// keys, a block at a time.
#include "model/stacks/own/plan_backward.hpp"

#include <algorithm>

#include "model/stacks/common/plan_attention.hpp"
#include "model/stacks/common/plan_stream.hpp"
#include "model/stacks/common/warm.hpp"

namespace plumbline {
namespace {

constexpr double kEs = 2, kSumBytes = 4;  // bf16; fp32 sums
constexpr double kWarpgroupRows = 64;
constexpr double kRowSums = 2;  // a query: log-sum-exp and delta

/// Work of a step: one block of queries against the CTA's keys. Warpgroups have 64 keys each; the left operands of dV
/// and dK are in their registers. Each makes its part of dQ, 64 x 64.
void step_demand(Demand& d, const BackwardVariant& own, const Rates& m) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double queries = static_cast<double>(own.q_tile), keys = static_cast<double>(own.kv_tile);
  const double width = static_cast<double>(own.head_dim), scores = queries * keys;
  constexpr double kProducts = 5;
  d.tensor_clk = 2 * scores * width * kProducts / sm.tensor_flop_per_clk[DType::bf16];
  d.sfu_clk = scores / sm.sfu_op_per_clk;
  // scale and subtract at once; dP minus the row's sum; times P; two conversions, two elements each
  constexpr double kOps = 4;
  d.fp32_clk = scores * kOps / (sm.fp32_flop_per_clk / 2);
  d.issue_clk = scores * (kOps + 1) / static_cast<double>(sm.warp_size) / sm.issue_per_clk;
  const double groups = keys / kWarpgroupRows, dq_parts = queries * width / (kWarpgroupRows * kWarpgroupRows);
  const double scores_read = 2 * groups * width * (kWarpgroupRows + queries);  // S and dP
  const double gradients_read = 2 * groups * queries * width;                  // dV and dK
  const double dq_read = dq_parts * 2 * kWarpgroupRows * keys;
  // dS; the next Q and dO; dQ's part as fp32 on its way out
  const double written = (scores + 2 * queries * width) * kEs + queries * width * kSumBytes;
  d.smem_clk = ((scores_read + gradients_read + dq_read) * kEs + written) / sm.smem_bytes_per_clk.in(units::B);
  d.l2 = (2 * queries * width * kEs + queries * width * kSumBytes + kRowSums * queries * kSumBytes) * units::B;
}

/// A block of keys is seen by as many blocks of queries as these see blocks of keys; the mean over CTAs is exact.
void cut_keys(Demand& d, const BackwardVariant& own, const AttentionBackward& s) {
  const double queries = static_cast<double>(own.q_tile), keys = static_cast<double>(own.kv_tile);
  const BlockCount blocks = visited_blocks(forward_of(s), queries, keys);
  const double parts = ceil_div(static_cast<double>(s.kv_len), keys);
  const double members = static_cast<double>(s.q_heads) / static_cast<double>(s.kv_heads);
  d.plan.ctas = static_cast<std::int64_t>(static_cast<double>(s.batch * s.kv_heads) * parts);
  d.plan.ctas_per_sm = own.ctas_per_sm;
  d.plan.threads = 384;
  d.plan.steps = members * blocks.total / parts;
  d.plan.longest = std::max(d.plan.steps, s.causal ? members * blocks.tiles : 0);
}

/// What of the steps' queries and sums comes from DRAM again. Without a mask CTAs of a head are at the same queries at a
/// time. Causal, each begins at its own keys, and those with short walks get ahead by heads of the group, by one at first
/// and by all at last: in the mean half of the group's queries, with dQ's sums, are in use for each KV head in flight, of
/// which L2 holds what fits.
double missed_share(const AttentionBackward& s, const Demand& d, const Rates& m) {
  if (!s.causal) return 0;
  const double parts = static_cast<double>(d.plan.ctas) / static_cast<double>(s.batch * s.kv_heads);
  const double heads =
      std::min(static_cast<double>(s.batch * s.kv_heads), std::max(1.0, static_cast<double>(m.sm_count) / parts));
  const double members = static_cast<double>(s.q_heads) / static_cast<double>(s.kv_heads);
  const double used = heads * (members + 1) / 2 * static_cast<double>(s.q_len * s.qk_dim) * (2 * kEs + kSumBytes);
  return std::max(0.0, 1 - m.l2_kept.in(units::B) / used);
}

}  // namespace

AttentionChoice plan_own_backward(const AttentionBackward& s, const BackwardVariant& own, const Rates& m,
                                  const FamilyScalars& family) {
  AttentionChoice c;
  c.family = &family;
  c.plan.q_tile = own.q_tile;
  c.plan.kv_tile = own.kv_tile;
  Demand& d = c.main;
  cut_keys(d, own, s);
  step_demand(d, own, m);
  d.step_latency = family.step;
  const double softmax = std::max({d.sfu_clk, d.fp32_clk, d.issue_clk});
  // What the additions of dQ in L2 hold up goes with their number; `step_clk` is that of 64 x 128 sums.
  constexpr double kStepSums = 64 * 128;
  const double additions = static_cast<double>(own.q_tile * own.head_dim) / kStepSums;
  d.exposed_clk = family.exposed * std::min(softmax, d.tensor_clk / family.efficiency / family.tensor_burst) +
                  family.step_clk * additions;
  d.serial_latency = kChainedLoads * m.gpu.memory.latency;
  d.serial_latency_of = "to load tensor maps and what they describe";
  // the first scores of a CTA hide under nothing, and dK and dV leave as a GEMM's results do (plan_prefill.cpp)
  constexpr double kStoreBytesPerClk = 20;
  const double keys = std::min(static_cast<double>(own.kv_tile), static_cast<double>(s.kv_len));
  d.once_clk = family.start_clk + softmax + 2 * keys * static_cast<double>(own.head_dim) * kEs / kStoreBytesPerClk;
  return c;
}

void answer_own_backward(const AttentionBackward& s, const BackwardVariant& own, const FamilyScalars& family,
                         const FamilyScalars& streams, const Question& q, Answer& out) {
  const Rates& m = q.rates;
  AttentionChoice choice = plan_own_backward(s, own, m, family);
  const double queries = static_cast<double>(s.batch * s.q_heads * s.q_len),
               q_values = queries * static_cast<double>(s.qk_dim);
  const double keys = static_cast<double>(s.batch * s.kv_heads * (s.qk_dim + s.v_dim)) * visible_keys(forward_of(s));
  const double sums = kSumBytes * q_values, per_row = kRowSums * kSumBytes * queries;
  const Bytes all = q.work.bytes() + (sums + per_row) * units::B;
  const double spilled = all > m.l2_kept ? 1 : 0;  // what one launch leaves for another goes through DRAM
  choice.main.dram_read = ((q_values + keys + spilled * q_values) * kEs + spilled * (per_row + sums)) * units::B;
  choice.main.dram_write = (keys * kEs + spilled * sums) * units::B;
  if (const double missed = missed_share(s, choice.main, m); missed > 0) {
    const double steps = choice.main.plan.steps * static_cast<double>(choice.main.plan.ctas);
    const double added = steps * static_cast<double>(own.q_tile * own.head_dim) * kSumBytes;
    choice.main.dram_read += missed * steps * choice.main.l2;
    choice.main.dram_write += missed * added * units::B;
  }
  out.sign(family);
  out.attention_plan = choice.plan;
  const bool warm = q.warmth == Warmth::everything && all <= m.l2_kept;
  // `left` and `found`: of the bytes those that one of the three launches leaves or finds for another
  const auto pass = [&](const char* kernel, double read, double written, double left, double found, double fp32) {
    Work w;
    w.read = (read + found) * units::B;
    w.write = (written + left) * units::B;
    w.fp32 = fp32 * units::FLOP;
    Demand& d = out.launch(kernel, streams) = stream_demand(w, m, warm);
    if (warm) return;
    d.dram_read = (read + spilled * found) * units::B;
    d.dram_write = (written + spilled * left) * units::B;
  };
  pass("sums by query", 2 * q_values * kEs + kSumBytes * queries, 0, per_row + sums, 0, 2 * q_values);
  launch_as_found(out, q, "attention backward", choice.main, family);
  pass("dQ", 0, q_values * kEs, 0, sums, q_values);
}

}  // namespace plumbline
