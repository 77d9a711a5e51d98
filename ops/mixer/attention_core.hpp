// Softmax attention proper, projections done, at each fusion level (see the head of attention_lower.cpp).
#pragma once

#include <cstdint>

#include "ops/step/step.hpp"

namespace plumbline::lowering {

/// `append`: see AttentionPrefill; decode takes it from here too.
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

/// Context parallelism: in prefill the keys and values of all ranks come together before attention (Llama 3, arXiv
/// 2407.21783, section 3.3.2); in decode each rank attends to its share of the cache, and what they found is joined by the
/// logarithms of their sums (vLLM's decode context parallelism).
void gather_context(Step& s, std::int64_t width, DType type);
void merge_context(Step& s, std::int64_t heads, std::int64_t width);

}  // namespace plumbline::lowering
