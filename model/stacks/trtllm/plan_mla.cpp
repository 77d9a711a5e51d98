// Latent (MLA) decode attention with absorbed projections.
#include <algorithm>
#include <cmath>

#include "model/stacks/trtllm/flash_mla.hpp"
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

/// Rows of a step's products. Heads are the rows of wgmma's instructions, which have 64 of them however few heads there are
/// (FlashMLA, BLOCK_SIZE_M); elsewhere heads can be columns. At Hopper's rate rows without a head are hidden: the keys of a step
/// take 1.7 to 2.5 times as long to come from memory, and 2 to 8 heads there take what their own 16 rows do. Units of a quarter of
/// the rate show them (H20: arXiv 2506.01969 makes 16 heads 2.8 times as fast there with keys in the rows); no card has half.
double rows_seen(double rows, DType dtype, const Rates& m) {
  constexpr double kGroup = 16, kInstruction = 64, kHidden = 2048;  // FLOP a clock and SM
  const double own = std::ceil(rows / kGroup) * kGroup;
  if (m.path.kind != TensorPath::Kind::wgmma || own >= kInstruction) return own;
  const double rate = m.gpu.sm.tensor_flop_per_clk[dtype];
  return own + (kInstruction - own) * std::clamp(kHidden / rate - 1, 0.0, 1.0);
}

/// A piece begins with its queries' rows and ends with its results', in fp32 where they are merged afterwards: nothing else
/// passes the SM's port meanwhile.
double piece_rows_clk(const DecodeTask& t, double splits, DType dtype, const Rates& m) {
  constexpr double kPartial = 4;
  const double result = splits > 1 ? kPartial : output_bytes_of(dtype);
  const Bytes rows = t.rows * (t.qk_dim * bytes_of(dtype) + t.v_dim * result) * units::B;
  return (rows / m.l2_per_sm).in(units::s)*m.clock.in(units::Hz);
}

/// FlashMLA's own deal, of caches of 8 bits. (Of 16 bits too, by its source; there the plan of plan_latent() stays: with this one
/// the 90th percentile of H200's held-out rows falls from 18 to 14 %, but the median rises from 3.5 to 5.)
void deal_pieces(AttentionChoice& c, const DecodeTask& t, DType dtype, const KeyCutting& how, const Rates& m) {
  const double tiles = t.ctas_unsplit / t.kv_sets, blocks = ceil_div(t.context, kLatentKeysPerStep);
  const MlaDeal deal = deal_latent(t.kv_sets, blocks, tiles, m.sm_count);
  const double most = std::max(1.0, std::floor(t.context / (2 * kLatentKeysPerStep)));
  c.combines = true;
  cut_keys(c, how, deal.splits, most, m, [&](Demand& main, double splits) {
    const bool by_rule = how.cutting == Cutting::by_rule;
    main.plan.ctas = static_cast<std::int64_t>(by_rule ? deal.ctas * tiles : t.ctas_unsplit * splits);
    main.plan.steps = main.plan.longest = by_rule ? deal.blocks : ceil_div(blocks, splits);
    const double pieces = by_rule ? deal.pieces : 1;
    main.once_clk = (pieces - 1) * c.family->per_cta * m.clock + pieces * piece_rows_clk(t, splits, dtype, m);
    decode_traffic(main, t, dtype, splits > 1 ? ResultsLeave::by_the_merge : ResultsLeave::here);
    c.combine = mla_merge_demand(t, dtype, splits, m);
  });
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
  const double instruction_rows = rows_seen(t.rows, dtype, m);
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
  if (transposes) {
    deal_pieces(c, t, dtype, how, m);
    return c;
  }
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

AttentionChoice plan_mla_prepared(const MlaDecode& s, const Rates& m, std::span<const FamilyScalars> families,
                                  const KeyCutting& how) {
  AttentionChoice c = plan_mla_decode(s, m, families, how);
  c.prepares = c.family == &families[trtllm::kMla8bit];  // fitted apart from it
  if (!c.prepares) return c;
  c.prepare_family = &families[trtllm::kPrepare];
  c.prepare = mla_prepare_demand(s, m);
  return c;
}

}  // namespace plumbline
