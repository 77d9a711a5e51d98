// PyTorch's memory-efficient attention: CUTLASS's fmha kernels of sm_80 (aten/src/ATen/native/transformers/cuda/mem_eff_attention),
// which scaled_dot_product_attention takes in fp32, with matrices added to the scores, and where FlashAttention can't run.
#pragma once

#include "model/stacks/provider.hpp"

namespace plumbline::efficient_attention {

/// One of its kernels: a tile of scores, and what a step of it executes, counted by ncu on an H200 (2048 queries and keys of 33
/// heads, no mask, PyTorch 2.11). Instructions are those of a quarter of the SM.
struct Kernel {
  std::int64_t bits = 0, widest = 0;  ///< of operands; of heads
  double queries = 0, keys = 0, warps = 0;
  std::int64_t registers = 0;
  double shared = 0;        ///< bytes of a CTA
  double instructions = 0;  ///< issued, a step
  double wait_clk = 0;      ///< clocks from an instruction of a warp to its next, had it the quarter for itself
  double wavefronts = 0;    ///< of shared memory, a step
  double sectors = 0;       ///< of 32 bytes that L2 looks up, a step
  /// Backward, 16 bits: what a tile of queries' sums of dO O take (computeDelta() of kernel_backward.h), in steps; of kernels
  /// for any width, of 256 columns. Their loop runs for each column there, not for each load, as num_iters is too many. From
  /// training rows of an H200; of 64 columns they show none, and fp32 has launches of their own.
  double sums = 0;
  double sums_alone = 0;  ///< the same where a CTA has its SM for itself: the loop waits for its own loads then
};

/// The first that takes such heads; null where there is none.
const Kernel* forward_kernel(DType type, std::int64_t width);
const Kernel* backward_kernel(DType type, std::int64_t width);

/// Parts into which a head's keys are dealt: a CTA for each block, but where gradients of keys and values are summed up in a memory
/// of their own (heads above 128 in 16 bits) no more than some 200 CTAs in all.
double key_parts(const Kernel& kernel, const AttentionBackward& shape);

void answer_forward(const AttentionPrefill& shape, const FamilyScalars& family, const Question& question,
                    Answer& answer);
/// `streams`: scalars of the passes beside the main launch.
void answer_backward(const AttentionBackward& shape, const FamilyScalars& family, const FamilyScalars& streams,
                     const Question& question, Answer& answer);

}  // namespace plumbline::efficient_attention
