// Softmax attention proper, projections done, at each fusion level (see the head of attention_lower.cpp).
#pragma once

#include <cstdint>

#include "ops/step/step.hpp"

namespace plumbline::lowering {

/// `append`: see AttentionPrefill.
struct Core {
  std::int64_t q_heads = 0, kv_heads = 0, qk_dim = 0, v_dim = 0, q_len = 0, kv_len = 0;
  bool causal = true;
  std::int64_t window = 0;
  bool chunked = false;
  bool decode = false;
  int append = 0;
  DType kv = DType::bf16;  ///< format in which keys and values lie in memory
};

/// All pairs of queries and keys, masked or not, in kernels of their own.
void eager_core(Step& s, const Core& c);
void attention_core(Step& s, const Core& c);
/// The same over the keys of an encoder, which lie in one piece.
void cross_core(Step& s, const Core& c);

}  // namespace plumbline::lowering
