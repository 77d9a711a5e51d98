// Which projections are rows of one matrix in the source of a model type (modeling_*.py of transformers). Operators keep
// them apart by name; what an eager framework has of them, tensors of an optimizer and views that attention keeps, are one.
#pragma once

#include "ops/llm/llm.hpp"

namespace plumbline::lowering {

/// Queries, keys and values.
bool joins_queries(const Llm& llm);
/// Gate and up.
bool joins_gate(const Llm& llm);

}  // namespace plumbline::lowering
