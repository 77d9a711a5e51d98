#pragma once

#include "ops/shape/attention_prefill.hpp"

namespace plumbline {

/// Gradients of softmax(Q K^T / sqrt(D) + mask) V: dQ, dK and dV from dO, with Q, K, V, O and each query's log-sum-exp
/// (fp32) as the forward pass left them. The scores are computed again, none of S x Skv is stored: five products where
/// the forward pass has two (FlashAttention-2, arXiv 2307.08691, algorithm 2). Shape and mask as AttentionPrefill has
/// them; a KV head's gradients are sums over its query heads.
struct AttentionBackward {
  std::int64_t batch = 0, q_heads = 0, kv_heads = 0, qk_dim = 0, v_dim = 0, q_len = 0, kv_len = 0;
  bool causal = true;
  std::int64_t window = 0;
  DType dtype = DType::bf16;
  bool masked = false;  ///< as of the forward pass
  /// Each sum is taken in one order, so that a run gives the bits of another: no two CTAs add to one element of dQ
  /// (FlashAttention-2's `deterministic`; PyTorch's torch.use_deterministic_algorithms).
  bool deterministic = false;
  bool operator==(const AttentionBackward&) const = default;
  static const Facts<AttentionBackward>& facts();
};

/// The forward pass that it is the gradient of.
inline AttentionPrefill forward_of(const AttentionBackward& s) {
  return {s.batch,  s.q_heads, s.kv_heads, s.qk_dim, s.v_dim, s.q_len, s.kv_len,
          s.causal, s.window,  0,          s.dtype,  s.dtype, s.masked};
}
inline AttentionBackward backward_of(const AttentionPrefill& s) {
  return {s.batch, s.q_heads, s.kv_heads, s.qk_dim, s.v_dim, s.q_len, s.kv_len, s.causal, s.window, s.dtype, s.masked};
}

}  // namespace plumbline
