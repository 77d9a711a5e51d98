// Prompts of the gated delta rule in chunks of 64 tokens, as serving stacks run them.
#pragma once

#include "model/stacks/provider.hpp"
#include "ops/shape/recurrence.hpp"

namespace plumbline {

/// Whether a chunked kernel runs it: the gated delta rule over more than one token, or a prompt of one. (Mamba's kernels are
/// others, and a single token is a step of the recurrence itself.)
bool runs_in_chunks(const Recurrence& shape);

/// Products that a tensor core of the card does of the operands' type; of its lanes where it has none. Clocks of an SM.
double clocks_of_products(double flops, DType type, const Rates& rates);

/// Families of Flash Linear Attention's launches. `chunks`: start_clk are the clocks of an SM that a CTA of a chunk and a
/// head takes, which CTAs beside it do not hide; `exposed` the share of them that a chunk of one token takes as well.
/// `scan`: step_clk are the clocks of a chunk in the launch that walks a sequence.
struct ChunkFamilies {
  const FamilyScalars &chunks, &scan, &rows;
};

/// Flash Linear Attention's launches in Triton: sums of the decay, products of keys, their triangular inverse in two
/// launches, the rows that update the state, the walk over the chunks, and the results. With a decay for each channel
/// (Kimi delta attention, fla/ops/kda) products of keys are launches of blocks of 16 tokens, off the diagonal and on it.
void answer_chunks(const Recurrence& shape, const ChunkFamilies& families, const Question& question, Answer& answer);

/// FlashInfer's kernel for Hopper: a CTA walks a head of a sequence. `family`: step_clk are the clocks of a chunk.
void answer_walk(const Recurrence& shape, const FamilyScalars& family, const FamilyScalars& rows,
                 const Question& question, Answer& answer);

}  // namespace plumbline
