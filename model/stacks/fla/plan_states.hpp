// Recurrences whose decay is one number a head and token: Mamba-2's prompts, lightning attention's, and steps of one token,
// the gated delta rule's too, as Triton kernels of serving stacks run them.
#pragma once

#include "model/stacks/provider.hpp"
#include "ops/shape/recurrence.hpp"

namespace plumbline {

/// Families of Mamba-2's launches. `scan`: start_clk are the clocks of an SM that a CTA of 64 tokens by 64 columns takes,
/// step_clk those of 128 rows that it multiplies. `state`: start_clk those of a CTA of 64 x 128 of a state, step_clk of 128
/// tokens that go into it.
struct SsdFamilies {
  const FamilyScalars &scan, &state, &rows;
};

/// Five launches over chunks of `shape.chunk` tokens: sums of the decay, the state that each chunk adds, the states passed on
/// from chunk to chunk, products of B and C, and the results.
void answer_ssd(const Recurrence& shape, const SsdFamilies& families, const Question& question, Answer& answer);

/// Lightning attention's two launches in Flash Linear Attention (simple_gla), chunks of 64 tokens: the walk of 64 x 64 of a
/// state (step_clk clocks of an SM a chunk), and results (start_clk a chunk and head).
void answer_gla(const Recurrence& shape, const FamilyScalars& family, const Question& question, Answer& answer);

/// Which kernel takes a step of one token.
enum class StepKernel { mamba, delta, gla };

/// One launch: CTAs hold a part of a head's state in registers. `family`: step_clk are the clocks of an SM that a CTA takes for
/// 1024 numbers of it.
void answer_state_step(const Recurrence& shape, StepKernel kernel, const FamilyScalars& family,
                       const FamilyScalars& rows, const Question& question, Answer& answer);

}  // namespace plumbline
