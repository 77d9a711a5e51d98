// Inside of memory_need: what a layer keeps, counted apart from the rest (activations.cpp).
#pragma once

#include "ops/memory/memory.hpp"
#include "ops/resolve/resolve.hpp"

namespace plumbline::lowering {

/// A stage of a pipeline that trains with so many micro-batches.
struct TrainingStage {
  std::int64_t number = 0, of = 1, micro_batches = 1;
};

/// Most bytes alive at a time in a forward-only step; and the bytes that the layers of a stage keep for the backward pass
/// of all micro-batches that are under way in it, `workload` being one micro-batch's.
Bytes live_activations(const Llm& llm, const Workload& workload, const Types& types);
Bytes stored_activations(const Llm& llm, const Workload& workload, const Types& types, const TrainingStage& stage = {});

}  // namespace plumbline::lowering
