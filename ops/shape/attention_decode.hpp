#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// One new token of each of B sequences over S cached tokens. page: tokens a page (0: contiguous).
struct AttentionDecode {
  std::int64_t batch = 0, q_heads = 0, kv_heads = 0, qk_dim = 0, v_dim = 0, context = 0;
  std::int64_t page = 0, window = 0;
  DType dtype = DType::bf16, kv_dtype = DType::bf16;
  /// Whether a launch before writes the new token's keys and values to the cache: 1 yes, 0 no, -1 "as where the kernels were
  /// measured" (resolved by the planner).
  int append = -1;
  bool operator==(const AttentionDecode&) const = default;
  static const Facts<AttentionDecode>& facts();
};

}  // namespace plumbline
