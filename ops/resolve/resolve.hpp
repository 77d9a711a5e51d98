// What a step's walk (ops/lower) and its memory (ops/memory) both settle first: number formats, and how many tokens
// each stack of the model sees.
//
// Not for users of the library: they call `lower` (ops/graph/graph.hpp).
#pragma once

#include <cstdint>

#include "ops/graph/workload.hpp"
#include "ops/llm/llm.hpp"
#include "ops/step/types.hpp"

namespace plumbline::lowering {

/// `--dtype`, when given, types the linear layers and the experts; else the file's quantization does. Training keeps
/// the file's type only when it is fp8 (4-bit and weight-only files are inference formats) and refuses a given
/// weight-only format. Throws BadInput.
Types types_of(const Llm& llm, const Workload& workload);

/// Layers of that generation train with dropout (GPT-2, BERT, T5-like recipes: LayerNorm and no gate).
bool trains_with_dropout(const LayerSpec& l, StackSpec::Role role);

/// Which tokens each stack of the model sees in this step (lengths.cpp).
///
/// Context ranks each have an even share of a sequence. In prefill a rank's share is a piece near the begin and one near the
/// end, so that each sees as many keys in the mean (arXiv 2411.01783, section 3.3): `kv_len` is where a chunk of `q_len`
/// neighbouring tokens would end that sees that many. In decode it is the rank's share of the cache.
struct Lengths {
  std::int64_t q_len = 0, kv_len = 0, cross_len = 0, text_tokens = 0;
  std::int64_t all_keys = 0;  ///< cached and new, of all context ranks
  std::int64_t kept = 0;      ///< ... of which this rank keeps
};
Lengths lengths_of(const Llm& llm, const Workload& workload, const StackSpec& stack);

/// Whether the step runs this stack (a vision tower beside a language model does not run: the prompt is text).
bool runs(const Llm& llm, const Workload& workload, const StackSpec& stack);

}  // namespace plumbline::lowering
