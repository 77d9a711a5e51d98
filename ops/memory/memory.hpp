// Bytes that one rank must hold for a step. Formulas beside each part in memory.cpp and activations.cpp.
#pragma once

#include "ops/graph/graph.hpp"
#include "ops/graph/workload.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline {

/// Does not `check` the workload. Throws BadInput for formats that don't fit the phase (see lowering::types_of).
MemoryNeed memory_need(const Llm& llm, const Workload& workload);

/// Weight elements of this rank: routed experts split by tensor x expert degree, everything else by tensor degree.
double local_params(const Llm& llm, const Workload& workload);

}  // namespace plumbline
