#include "model/stacks/trtllm/flash_mla.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline {
namespace {

/// The GPU begins one CTA after the other, whatever its size: 65536 that end at once take 40.0 us, 262144 take 158
/// (H200, 2026-11-28, data/measurements/h200/pytorch/cta_turns.csv), so that many small ones are seen where they are
/// more than SMs hold.
void begin_ctas(Demand& d, const Rates& m) {
  constexpr double kCtaClk = 1.19;
  const double ctas = static_cast<double>(d.plan.ctas);
  const double waves = std::ceil(ctas / (m.sm_count * static_cast<double>(d.plan.ctas_per_sm)));
  d.dealt_clk = std::max(0.0, ctas * kCtaClk - (waves - 1) * d.step_latency * m.clock);
}

}  // namespace

/// A piece of a sequence counts as so many blocks more. A CTA's load is the mean of all and one such piece; who has
/// room for no more than the piece begins none. (TensorRT-LLM, flash_fwd_mla_metadata.cu: get_mla_metadata_kernel();
/// fixed_overhead_num_blocks = 5, as FlashMLA's flash_api.cpp.) Sequences are equally long here, so that no loop is
/// needed.
MlaDeal deal_latent(double sequences, double blocks, double tiles, double sms) {
  constexpr double kOverhead = 5;
  const double parts = std::max(1.0, std::floor(sms / tiles)), whole = blocks + kOverhead;
  const double load = ceil_div(sequences * whole, parts) + kOverhead;
  MlaDeal deal;
  if (whole > load) {
    deal.blocks = load - kOverhead;
    deal.splits = ceil_div(blocks, deal.blocks);
  } else {
    const double sequences_each = std::min(sequences, std::floor(load / whole));
    const double room = sequences_each < sequences ? load - sequences_each * whole : 0;
    const double begun = std::max(0.0, room - kOverhead);
    deal.blocks = sequences_each * blocks + begun;
    deal.pieces = sequences_each + (begun > 0 ? 1 : 0);
    if (begun > 0) deal.splits = 2;
  }
  deal.ctas = std::min(parts, ceil_div(sequences * blocks, deal.blocks));
  return deal;
}

/// A CTA of 128 threads for each head of each sequence, which reads how many parts there are, ends where there is one,
/// and else adds them up in turn, `kAtOnce` loads under way. (FlashMLA, flash_fwd_splitkv_mla_combine_kernel(); its
/// loop is unrolled by four.)
Demand mla_merge_demand(const DecodeTask& t, DType dtype, double splits, const Rates& m) {
  constexpr double kAtOnce = 4;
  Demand d = combine_demand(t.out_rows, t.v_dim, splits, output_bytes_of(dtype), m);
  d.plan.ctas_per_sm = 16;
  if (splits <= 1) {
    d.l2 = d.partials = d.dram_read = d.dram_write = Bytes{};
    d.step_latency = m.l2_latency;
  } else {
    d.step_latency = (2 + ceil_div(splits, kAtOnce)) * m.l2_latency;
  }
  begin_ctas(d, m);
  return d;
}

/// A CTA of 256 threads for 32 tokens of a head, nine more for the cache, and of 8-bit caches eight more a head, which
/// round the queries. A thread's loads wait for one another: the sequence's length, its angles, the values.
/// (mlaKernels.cu: invokeMLARopeGeneration(), applyMLARopeAndAssignQKVKernelGeneration().)
Demand mla_prepare_demand(const MlaDecode& s, const Rates& m) {
  constexpr double kTokens = 32, kForCache = 9, kToRound = 8, kLoads = 2;
  const bool rounds = bits(s.kv_dtype) <= 8;
  const double heads = static_cast<double>(s.heads), tokens = static_cast<double>(s.batch);
  const double latent = static_cast<double>(s.latent), rope = static_cast<double>(s.rope);
  const double es = bytes_of(s.dtype), kv_es = bytes_of(s.kv_dtype);
  const double ctas = ceil_div(tokens, kTokens) * (heads * (rounds ? 1 + kToRound : 1) + kForCache);
  Demand d;
  d.plan.ctas = static_cast<std::int64_t>(ctas);
  d.plan.ctas_per_sm = 8;
  d.plan.threads = 256;
  d.step_latency = kLoads * m.l2_latency + m.dram_latency;
  const double keys = tokens * (latent + rope);
  const double turned = tokens * heads * rope, rounded = rounds ? tokens * heads * latent : 0;
  d.dram_read = (keys + turned + rounded) * es * units::B;
  const Bytes queries = (turned + rounded) * kv_es * units::B;
  // what the next launch reads stays in L2 where it fits
  d.dram_write = keys * kv_es * units::B + (queries > m.l2_kept ? queries : Bytes{});
  begin_ctas(d, m);
  return d;
}

}  // namespace plumbline
