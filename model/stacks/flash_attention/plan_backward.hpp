// FlashAttention's backward pass (FA2, and FA3 from wgmma on), as PyTorch and Megatron call it.
#pragma once

#include "model/stacks/provider.hpp"

namespace plumbline {

/// Whose tiles: FlashAttention's of the card's generation, FA2's on any, or cuDNN's.
enum class BackwardKernels { flash, flash2, cudnn };

/// The launches of one backward pass: row sums of dO O, the five products, dQ from its fp32 sums to the operator's type,
/// and, where query heads share keys, the sum of dK and dV over them. `family`: scalars of the main launch; `streams`:
/// those of the others.
void answer_backward(const AttentionBackward& shape, const FamilyScalars& family, const FamilyScalars& streams,
                     const Question& question, Answer& answer, BackwardKernels kernels = BackwardKernels::flash);

}  // namespace plumbline
