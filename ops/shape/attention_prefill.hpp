#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// softmax(Q K^T / sqrt(D) + mask) V for B sequences of S new tokens over Skv >= S cached-and-new tokens.
/// Causal: query i (of S) sees keys 0 .. Skv-S+i. window > 0: only the last `window` of those.
struct AttentionPrefill {
  std::int64_t batch = 0, q_heads = 0, kv_heads = 0, qk_dim = 0, v_dim = 0, q_len = 0, kv_len = 0;
  bool causal = true;
  std::int64_t window = 0;
  /// Whether the launch also rotates Q and K and appends K,V to the cache, reading them from the fused QKV result:
  /// 1 yes, 0 no, -1 "as this kernel set's serving stacks do" (resolved by the planner).
  int append = -1;
  DType dtype = DType::bf16, kv_dtype = DType::bf16;
  /// A matrix is added to the scores: of a library's kernels some take none (model/stacks/pytorch/sdpa.hpp).
  bool masked = false;
  bool operator==(const AttentionPrefill&) const = default;
  static const Facts<AttentionPrefill>& facts();
};

}  // namespace plumbline
