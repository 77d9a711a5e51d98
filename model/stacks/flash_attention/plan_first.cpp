// The algorithm of arXiv 2205.14135 in tiles of 128 x 128, as flash_attn_triton.py of HazyResearch/flash-attention (2022)
// and llm-foundry has it: products by mma.sync on any card, one stage of loads, so that each load is waited for, one CTA
// an SM, and no work of one kind beside another. What is counted (tensor units, softmax, shared memory, L2) is therefore
// added up (the family's `overlap` is 1), and what a step waits beside goes with its products: `step_clk` of one of
// 128 x 128 x 128. That one number is fitted to sums of both passes that were published of the first CUDA kernels, of
// heads of 64 and of 128 columns (tools/fit_first_flash.py). It stands for register spills too: the two widths want 30 %
// less and more, so that an error of that kind is in it. Windows and groups of query heads: each head reads its keys.
#include "model/stacks/flash_attention/plan_first.hpp"

#include <algorithm>

#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/common/plan_attention.hpp"
#include "model/stacks/common/plan_stream.hpp"
#include "model/stacks/common/warm.hpp"

namespace plumbline {
namespace {

constexpr double kFirstTile = 128;

double first_width(std::int64_t width) { return std::max(16.0, ceil_div(static_cast<double>(width), 16) * 16); }

/// A step of `products` products, half of them over `qk` columns and half over `v`, and of so many loads of rows.
void first_step(Demand& d, double products, double loads, double width, DType type, const Rates& m,
                const FamilyScalars& family) {
  const StreamingMultiprocessor& sm = m.gpu.sm;
  const double es = bytes_of(type), scores = kFirstTile * kFirstTile, product = scores * width;
  d.tensor_clk = 2.0 * product * products / mma_sync_flop_per_clk(type, m);
  d.sfu_clk = scores / sm.sfu_op_per_clk;
  d.fp32_clk = scores * kSoftmaxOps / (sm.fp32_flop_per_clk / 2);
  // eight warps of 16 rows each read all of the other operand; loads go through shared memory
  const double read = products * (kFirstTile / 16) * kFirstTile * width, loaded = loads * kFirstTile * width;
  d.smem_clk = (read + loaded) * es / sm.smem_bytes_per_clk.in(units::B);
  d.l2 = loaded * es * units::B;
  d.exposed_clk = family.step_clk * products * width / kFirstTile;
}

void cut_first(Demand& d, double heads, double ctas, double steps, double longest, const FamilyScalars& family) {
  d.plan.ctas = static_cast<std::int64_t>(heads * ctas);
  d.plan.ctas_per_sm = 1;
  d.plan.threads = 256;
  d.plan.steps = steps;
  d.plan.longest = longest;
  d.plan.shortest_first = true;  // in the order of the tiles
  d.once_clk = family.start_clk;
}

}  // namespace

void answer_first_forward(const AttentionPrefill& s, const FamilyScalars& family, const Question& q, Answer& out) {
  const double width = (first_width(s.qk_dim) + first_width(s.v_dim)) / 2;
  const BlockCount blocks = visited_blocks(s, kFirstTile, kFirstTile);
  Demand d;
  first_step(d, 2, 2, width, s.dtype, q.rates, family);
  cut_first(d, static_cast<double>(s.batch * s.q_heads), blocks.tiles, blocks.total / blocks.tiles, blocks.longest,
            family);
  prefill_traffic(d, s);
  out.sign(family);
  out.unmeasured = true;
  launch_as_found(out, q, "attention", d, family);
}

void answer_first_backward(const AttentionBackward& s, const FamilyScalars& family, const FamilyScalars& streams,
                           const Question& q, Answer& out) {
  const Rates& m = q.rates;
  const double width = (first_width(s.qk_dim) + first_width(s.v_dim)) / 2, es = bytes_of(s.dtype);
  const double heads = static_cast<double>(s.batch * s.q_heads), queries = heads * static_cast<double>(s.q_len);
  const double q_values = queries * static_cast<double>(s.qk_dim), o_values = queries * static_cast<double>(s.v_dim);
  const double keys =
      static_cast<double>(s.batch * s.kv_heads) * visible_keys(forward_of(s)) * static_cast<double>(s.qk_dim + s.v_dim);
  const BlockCount blocks = visited_blocks(forward_of(s), kFirstTile, kFirstTile);
  const double parts = ceil_div(static_cast<double>(s.kv_len), kFirstTile);
  Demand d;
  // Q and dO come, dQ's fp32 sums come and go: as much as four more tiles of 16 bits
  first_step(d, 5, 6, width, s.dtype, m, family);
  cut_first(d, heads, parts, blocks.total / parts, s.causal ? blocks.tiles : blocks.total / parts, family);
  const double sums = 4.0 * q_values, per_row = 4.0 * queries;
  d.dram_read = ((q_values + keys + o_values) * es + 2 * per_row + sums) * units::B;
  d.dram_write = (keys * es + sums) * units::B;
  out.sign(family);
  out.unmeasured = true;
  const auto pass = [&](const char* kernel, double read, double written) {
    Work w;
    w.read = read * units::B;
    w.write = written * units::B;
    out.launch(kernel, streams) = stream_demand(w, m, false);
  };
  pass("row sums of dO O", 2 * o_values * es, per_row + sums);
  launch_as_found(out, q, "attention backward", d, family);
  pass("dQ", sums, q_values * es);
}

}  // namespace plumbline
