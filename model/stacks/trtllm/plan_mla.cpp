// Latent (MLA) decode attention with absorbed projections.
#include <algorithm>
#include <cmath>

#include "model/stacks/trtllm/plan_attention.hpp"

namespace plumbline {
namespace {

/// Keys a step, and how many CTAs an SM the split heuristic aims at: twice the SMs, one running at a time (what
/// FlashMLA's planner does, within a factor of two).
constexpr double kLatentKeysPerStep = 64;
constexpr double kCtasAimedAt = 2;

/// tcgen05 lets two SMs multiply as one: with 128 heads each has 64 of them and fetches half of the keys for both.
/// (TensorRT-LLM, fmhaKernels.h: the kernels for 128 heads are of two CTAs, 256 columns of V each.)
bool shares_keys(const DecodeTask& t, const Rates& m) {
  constexpr double kPairedHeads = 128;
  return m.path.kind == TensorPath::Kind::tcgen05 && t.out_rows / t.kv_sets >= kPairedHeads;
}

/// wgmma takes 8-bit values along the keys alone, so that a warpgroup transposes them in shared memory: a chain of `step_clk` for
/// 64 keys, whatever the heads. (FlashMLA's kernel for fp8; FlashAttention-3 does the same.)
bool transposes_values(const DecodeTask& t, const Rates& m) {
  return m.path.kind == TensorPath::Kind::wgmma && t.key_bytes <= t.qk_dim;
}

AttentionChoice plan_latent(const DecodeTask& t, DType dtype, const Rates& m, std::span<const FamilyScalars> families,
                            const KeyCutting& how) {
  const bool transposes = transposes_values(t, m);
  const FamilyScalars& family = families[transposes ? trtllm::kMla8bit : trtllm::kMla];
  AttentionChoice c;
  c.family = &family;
  c.combine_family = &families[trtllm::kCombine];
  const double room = std::floor(m.sm_count * kCtasAimedAt / t.ctas_unsplit);
  const double most = std::max(1.0, std::floor(t.context / (2 * kLatentKeysPerStep)));
  c.plan.kv_tile = static_cast<std::int64_t>(kLatentKeysPerStep);
  c.plan.packed_heads = static_cast<std::int64_t>(t.rows);

  Demand& d = c.main;
  d.plan.ctas_per_sm = 1;
  d.plan.threads = 256;
  const double instruction_rows = std::ceil(t.rows / 16) * 16;
  score_demand(d, {instruction_rows, kLatentKeysPerStep, t.qk_dim, t.v_dim}, m.gpu.sm.tensor_flop_per_clk[dtype],
               t.key_bytes / (t.qk_dim + t.v_dim), m);
  if (shares_keys(t, m)) {
    d.smem_clk *= 0.5;
    d.l2 *= 0.5;
  }
  // the chain of a step grows with the bytes of its keys; the scalar is that of 64 keys of 2 x 128 at 16 bits
  constexpr double kReferenceKeyBytes = 512;
  d.step_latency = family.step * (t.key_bytes / kReferenceKeyBytes);
  if (transposes) d.step_latency = family.step_clk / m.clock;
  d.in_flight = family.in_flight;
  cut_keys(c, how, std::clamp(room, 1.0, most), most, m, [&](Demand& main, double splits) {
    main.plan.ctas = static_cast<std::int64_t>(t.ctas_unsplit * splits);
    main.plan.steps = main.plan.longest = ceil_div(ceil_div(t.context, splits), kLatentKeysPerStep);
    decode_traffic(main, t, dtype, splits > 1 ? ResultsLeave::by_the_merge : ResultsLeave::here);
    c.combines = splits > 1;
    if (c.combines) c.combine = combine_demand(t.out_rows, t.v_dim, splits, output_bytes_of(dtype), m);
  });
  return c;
}

}  // namespace

DecodeTask latent_task(const MlaDecode& s, double rows) {
  DecodeTask t;
  t.kv_sets = static_cast<double>(s.batch);
  t.ctas_unsplit = t.kv_sets * ceil_div(static_cast<double>(s.heads), rows);
  t.rows = std::min(static_cast<double>(s.heads), rows);
  t.context = t.cached = std::max(1.0, static_cast<double>(s.context));
  t.qk_dim = static_cast<double>(s.latent + s.rope);
  t.v_dim = static_cast<double>(s.latent);
  t.key_bytes = t.qk_dim * bytes_of(s.kv_dtype);  // the value is a view of the key
  t.out_rows = static_cast<double>(s.batch * s.heads);
  return t;
}

AttentionChoice plan_mla_decode(const MlaDecode& s, const Rates& m, std::span<const FamilyScalars> families,
                                const KeyCutting& how) {
  constexpr double kRowsPerCta = 64;
  return plan_latent(latent_task(s, kRowsPerCta), s.dtype, m, families, how);
}

}  // namespace plumbline
