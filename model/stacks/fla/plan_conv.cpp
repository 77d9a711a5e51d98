// By the sources: Dao-AILab/causal-conv1d, csrc/causal_conv1d_fwd.cu and causal_conv1d_update.cu, as TensorRT-LLM
// (cpp/tensorrt_llm/kernels/causalConv1d) and SGLang copy them.
#include "model/stacks/fla/plan_conv.hpp"

#include <algorithm>
#include <cmath>

#include "ops/as_double.hpp"

namespace plumbline {
namespace {

constexpr double kVector = 16;  // bytes a thread loads at a time
constexpr double kPromptThreads = 128;
constexpr double kStepThreads = 64;

/// CTAs of one channel: 128 threads of 16 bytes each take 1024 values of two bytes at a time, and go through their barriers
/// and exponentials for values that are not there too. That is why short sequences take as long as those of 512 tokens.
/// Where rows are no whole vectors each value is loaded by itself, by way of shared memory. (Batches of unequal lengths,
/// which begin anywhere, are loaded so as well; the shape does not say that.)
Demand prompt(const CausalConv& s, const FamilyScalars& family, const Question& q) {
  const double values = kVector / bytes_of(s.dtype);  // of a thread
  const double ctas = d(s.batch) * d(s.channels);
  const bool whole = std::fmod(d(s.seq), values) == 0;
  Demand out;
  out.plan.ctas = static_cast<std::int64_t>(ctas);
  out.plan.threads = static_cast<std::int64_t>(kPromptThreads);
  out.plan.steps = out.plan.longest = std::ceil(d(s.seq) / (kPromptThreads * values));
  out.issue_clk = family.start_clk + (whole ? 0 : family.step_clk);
  out.l2 = q.work.bytes() / (ctas * out.plan.steps);
  return out;
}

Demand step(const CausalConv& s, const FamilyScalars& family, const Question& q) {
  const double ctas = d(s.batch) * std::ceil(d(s.channels) / kStepThreads);
  Demand out;
  out.plan.ctas = static_cast<std::int64_t>(ctas);
  out.plan.threads = static_cast<std::int64_t>(kStepThreads);
  out.issue_clk = family.start_clk;
  out.l2 = q.work.bytes() / ctas;
  return out;
}

}  // namespace

void answer_conv(const CausalConv& s, const ConvFamilies& families, const Question& q, Answer& out) {
  const bool one = s.seq == 1;
  const FamilyScalars& family = one ? families.step : families.prompt;
  const Rates& m = q.rates;
  out.sign(family);
  Demand& demand = out.launch(one ? "convolution of a token" : "convolution", family) =
      one ? step(s, family, q) : prompt(s, family, q);
  demand.plan.ctas_per_sm = std::max<std::int64_t>(1, m.gpu.sm.threads / demand.plan.threads);
  // inputs that the product before it has just written are still there; a step's last inputs were left by the step before
  const Bytes passing = storage(s.dtype, d(s.batch) * d(s.channels) * d(s.seq));
  const bool all = q.warmth == Warmth::everything && q.work.bytes() <= m.l2_kept;
  const bool passed = all || (q.warmth == Warmth::streams && 2.0 * passing <= m.l2_kept);
  demand.step_latency = all || (passed && !one) ? std::min(2.0 * m.l2_latency, m.dram_latency) : m.dram_latency;
  if (all) return;
  demand.dram_read = q.work.read - (passed ? passing : Bytes{});
  demand.dram_write = q.work.write - (passed ? passing : Bytes{});
}

}  // namespace plumbline
