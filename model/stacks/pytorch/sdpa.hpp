// Which kernels scaled_dot_product_attention takes: the first of its list that can run (PyTorch 2.11, select_sdp_backend() and
// priority_order() of aten/src/ATen/native/transformers/cuda/sdp_utils.cpp).
#pragma once

#include "model/stacks/provider.hpp"

namespace plumbline {

enum class SdpaKernel { cudnn, flash2, efficient };

/// cuDNN's come first on 9.0, 10.0 and 10.3 (check_prefer_cudnn_attention(), cuDNN above 9.15; 10.3 since pull request 170800 of
/// December 2025, that is from 2.10 or 2.11 on), FlashAttention-2's on other cards from
/// 8.0 on, memory-efficient ones behind both. cuDNN takes 16 bits (check_dtypes_low_precision()), and matrices added to scores;
/// FlashAttention-2 takes 16 bits, keys as wide as values, up to 256 columns (check_head_dim_size_flash()), no matrix
/// (check_for_attn_mask()), and a causal mask of as many queries as keys (check_flash_causal_non_square_seqlens()). Where none of
/// them runs, which is where heads share keys that FlashAttention-2 does not take, PyTorch writes the scores out: no operator of
/// attention's, priced as cuDNN's where that comes first and as memory-efficient elsewhere.
/// Before it a B300 took FlashAttention-2's, by mma.sync, which a descriptor's numbers do not tell. PyTorch takes Triton's
/// attention on AMD, which nobody measured: it is priced as cuDNN's.
SdpaKernel sdpa_kernel(const AttentionPrefill& shape, const Rates& rates);
/// 8.6 and 8.9 refuse FlashAttention-2's gradients of heads of 193 to 224 columns
/// (check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89()). cuDNN is left out where gradients are to be deterministic
/// (check_cudnn_deterministic()).
SdpaKernel sdpa_kernel(const AttentionBackward& shape, const Rates& rates);
SdpaKernel sdpa_kernel(const AttentionDecode& shape, const Rates& rates);

/// A step as a prompt of one query: memory-efficient kernels have no other, and cut no keys.
AttentionPrefill prompt_of(const AttentionDecode& shape);

/// FlashAttention-2's: heads that share keys are queries of one head (seqlenq_ngroups_swapped of mha_fwd(),
/// aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp), whose keys are cut whether they share them or not. The steps
/// recorded on an H200 and an H100 with that kernel are met so without a scalar of their own.
AttentionPrefill prompt_of_groups(const AttentionDecode& shape);

/// Before 8.0 other memory-efficient kernels run (sm70, sm75: other tiles), which nobody timed.
bool runs_sm80_kernels(const Rates& rates);

}  // namespace plumbline
