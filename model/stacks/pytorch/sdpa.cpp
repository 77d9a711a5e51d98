#include "model/stacks/pytorch/sdpa.hpp"

#include <algorithm>

#include "model/stacks/flash_attention/second.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kWidestOfFlash2 = 256;

bool prefers_cudnn(const Rates& m) {
  const MatrixUnit unit = m.gpu.sm.matrix_unit;
  return unit == MatrixUnit::wgmma || unit == MatrixUnit::tcgen05 || unit == MatrixUnit::mfma;
}

/// check_cudnn_tensor_shapes() of aten/src/ATen/native/transformers/cuda/sdp_utils.cpp; others are padded for FlashAttention-2,
/// which is launches of their own (data/launches/transformers*.json).
bool cudnn_takes_widths(const AttentionPrefill& s) {
  constexpr std::int64_t kStep = 8;
  return s.qk_dim % kStep == 0 && s.v_dim % kStep == 0;
}

bool flash2_takes(const AttentionPrefill& s, const Rates& m) {
  const bool widths = s.qk_dim == s.v_dim && s.qk_dim <= kWidestOfFlash2;
  return runs_sm80_kernels(m) && bits(s.dtype) <= 16 && widths && !s.masked && (!s.causal || s.q_len == s.kv_len);
}

}  // namespace

bool runs_sm80_kernels(const Rates& m) { return m.gpu.sm.async_copy != AsyncCopy::none; }

SdpaKernel sdpa_kernel(const AttentionPrefill& s, const Rates& m) {
  // kernels behind cuDNN's do not know heads that share keys where FlashAttention-2 can't run
  const bool shared_keys = s.q_heads != s.kv_heads;
  if (prefers_cudnn(m) && cudnn_takes_widths(s) && (bits(s.dtype) <= 16 || shared_keys)) return SdpaKernel::cudnn;
  return flash2_takes(s, m) ? SdpaKernel::flash2 : SdpaKernel::efficient;
}

SdpaKernel sdpa_kernel(const AttentionBackward& s, const Rates& m) {
  SdpaKernel found = sdpa_kernel(forward_of(s), m);
  if (s.deterministic && found == SdpaKernel::cudnn) {
    found = flash2_takes(forward_of(s), m) ? SdpaKernel::flash2 : SdpaKernel::efficient;
  }
  const bool refused = flash_attention::is_sm8x(m) && s.qk_dim > 192 && s.qk_dim <= 224;
  return found == SdpaKernel::flash2 && refused ? SdpaKernel::efficient : found;
}

SdpaKernel sdpa_kernel(const AttentionDecode& s, const Rates& m) { return sdpa_kernel(prompt_of(s), m); }

AttentionPrefill prompt_of(const AttentionDecode& s) {
  AttentionPrefill prompt;
  prompt.batch = s.batch;
  prompt.q_heads = s.q_heads;
  prompt.kv_heads = s.kv_heads;
  prompt.qk_dim = s.qk_dim;
  prompt.v_dim = s.v_dim;
  prompt.q_len = 1;
  prompt.kv_len = s.window > 0 ? std::min(s.window, s.context) : s.context;
  prompt.causal = false;
  prompt.append = 0;
  prompt.dtype = s.dtype;
  prompt.kv_dtype = s.kv_dtype;
  return prompt;
}

AttentionPrefill prompt_of_groups(const AttentionDecode& s) {
  AttentionPrefill prompt = prompt_of(s);
  const bool swapped = s.window <= 0 && s.qk_dim % 8 == 0;
  if (!swapped) return prompt;
  prompt.q_len = s.q_heads / s.kv_heads;
  prompt.q_heads = s.kv_heads;
  return prompt;
}

}  // namespace plumbline
