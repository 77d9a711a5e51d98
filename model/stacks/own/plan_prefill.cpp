// Our own prefill attention: flash attention forward, one tile of queries a CTA (kernels/attention).
#include <algorithm>

#include "model/stacks/own/plan_attention.hpp"

namespace plumbline {

AttentionChoice plan_own_prefill(const AttentionPrefill& s, const PrefillVariant& own, const Rates& m,
                                 const FamilyScalars& family) {
  AttentionChoice c;
  c.family = &family;
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
  d.polls = true;
  score_demand(d, {q_tile, kv_tile, width, width}, m.gpu.sm.tensor_flop_per_clk[s.dtype], bytes_of(s.kv_dtype), m);
  // each warpgroup of 64 rows reads the keys' and values' tiles for itself
  constexpr double kRowsOfAWarpgroup = 64;
  d.smem_hidden_clk = (q_tile / kRowsOfAWarpgroup - 1) * 0.5 * d.smem_clk;
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
  prefill_traffic(d, s);
  return c;
}

}  // namespace plumbline
