// Inside of memory_need: what a layer keeps, counted apart from the rest (activations.cpp).
#pragma once

#include "ops/memory/memory.hpp"
#include "ops/resolve/resolve.hpp"

namespace plumbline::lowering {

/// Most bytes alive at a time in a forward-only step, and the bytes that all layers keep for the backward pass in
/// training.
Bytes live_activations(const Llm& llm, const Workload& workload, const Types& types);
Bytes stored_activations(const Llm& llm, const Workload& workload, const Types& types);

}  // namespace plumbline::lowering
