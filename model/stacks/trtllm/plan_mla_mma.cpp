// Latent decode where tensor units take mma.sync alone: TensorRT-LLM's, and the Triton kernel that vLLM takes there.
// (Found on an A100, whose rows of both are on file.)
#include <algorithm>
#include <cmath>

#include "model/stacks/trtllm/plan_attention.hpp"

namespace plumbline {
namespace {

/// A CTA is a chain of steps: `step_clk` beside the products of a step, none of which the other hides. Where both SMs of
/// a pair (TPC) have one, each takes `exposed` times as long: 1.45, of one tile as of 2048, from memory as from L2, so that it is
/// none of their bytes; who fills less than half of the SMs has a pair's for each. CTAs come in rounds.
void walk_in_rounds(Demand& d, double ctas, double steps, const Rates& m, const FamilyScalars& family) {
  d.plan.ctas = static_cast<std::int64_t>(ctas);
  d.plan.steps = d.plan.longest = steps;
  const double full = std::floor(ctas / m.sm_count), last = ctas - full * m.sm_count;
  const double alone = last > 0 && last <= m.sm_count / 2 ? 1 : 0, rounds = full + (last > 0 ? 1 : 0);
  const double slower = (alone + (rounds - alone) * std::max(1.0, family.exposed)) / rounds;
  const double chain = slower * (d.tensor_clk + family.step_clk + family.start_clk / steps);
  d.step_latency = chain / m.clock;
}

/// A kernel whose CTA takes so many heads, and so many keys a step.
struct Block {
  double rows, keys;
};

AttentionChoice of_blocks(const DecodeTask& t, const Block& block, DType dtype, const Rates& m,
                          const FamilyScalars& family, const FamilyScalars& combine) {
  AttentionChoice c;
  c.family = &family;
  c.combine_family = &combine;
  c.plan.kv_tile = static_cast<std::int64_t>(block.keys);
  c.plan.packed_heads = static_cast<std::int64_t>(t.rows);
  c.main.plan.ctas_per_sm = 1;
  c.main.plan.threads = 128;
  score_demand(c.main, {block.rows, block.keys, t.qk_dim, t.v_dim}, m.gpu.sm.tensor_flop_per_clk[dtype],
               t.key_bytes / (t.qk_dim + t.v_dim), m);
  return c;
}

}  // namespace

/// The prompts' kernel, heads in place of queries: a CTA takes 64 of them, whatever there are, through all keys of a sequence,
/// 64 at a time; nothing cuts the keys. (attentionOp.cpp: mlaGeneration(), where neither FlashMLA nor trtllm-gen runs.)
AttentionChoice plan_mla_unsplit(const MlaDecode& s, const Rates& m, std::span<const FamilyScalars> families,
                                 const KeyCutting& how) {
  constexpr Block kBlock{64, 64};
  const DecodeTask t = latent_task(s, kBlock.rows);
  AttentionChoice c = of_blocks(t, kBlock, s.dtype, m, families[trtllm::kMlaMma], families[trtllm::kCombine]);
  cut_keys(c, how, 1, 1, m, [&](Demand& main, double) {
    walk_in_rounds(main, t.ctas_unsplit, ceil_div(t.context, kBlock.keys), m, *c.family);
    decode_traffic(main, t, s.dtype, ResultsLeave::here);
  });
  return c;
}

/// 16 heads a CTA and always four parts of the keys, 32 of which are a step; a launch more merges them.
/// (vllm/v1/attention/backends/mla/triton_mla.py: num_kv_splits = 4; triton_decode_attention.py, _decode_grouped_att_m_fwd().)
AttentionChoice plan_mla_triton(const MlaDecode& s, const Rates& m, std::span<const FamilyScalars> families,
                                const KeyCutting& how) {
  constexpr Block kBlock{16, 32};
  constexpr double kParts = 4;
  const DecodeTask t = latent_task(s, kBlock.rows);
  AttentionChoice c = of_blocks(t, kBlock, s.dtype, m, families[trtllm::kMlaTriton], families[trtllm::kCombine]);
  const double most = std::max(kParts, ceil_div(t.context, kBlock.keys));
  cut_keys(c, how, kParts, most, m, [&](Demand& main, double parts) {
    walk_in_rounds(main, t.ctas_unsplit * parts, ceil_div(ceil_div(t.context, parts), kBlock.keys), m, *c.family);
    decode_traffic(main, t, s.dtype, ResultsLeave::by_the_merge);
    c.combines = true;
    c.combine = combine_demand(t.out_rows, t.v_dim, parts, output_bytes_of(s.dtype), m);
  });
  return c;
}

}  // namespace plumbline
