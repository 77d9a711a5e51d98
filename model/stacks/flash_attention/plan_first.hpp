// FlashAttention's first kernels, before its second version cut work anew: CUDA's of 2022 and Triton's that were written
// after them (flash_attn_triton.py, which MPT trained with).
#pragma once

#include "model/stacks/provider.hpp"

namespace plumbline {

/// Forward pass: a CTA for 128 queries of a head walks blocks of 128 keys.
void answer_first_forward(const AttentionPrefill& shape, const FamilyScalars& family, const Question& question,
                          Answer& answer);
/// Backward pass: row sums of dO O, then a CTA for 128 keys of a head walks blocks of 128 queries and adds dQ in fp32.
/// `family`: scalars of the main launch; `streams`: those of the others.
void answer_first_backward(const AttentionBackward& shape, const FamilyScalars& family, const FamilyScalars& streams,
                           const Question& question, Answer& answer);

}  // namespace plumbline
