// (Llm, Workload) -> the operators of one step on one rank.
#pragma once

#include "ops/graph/graph.hpp"
#include "ops/graph/workload.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline {

/// Lowers one step. `graph` is cleared and refilled (its storage is reused: microseconds matter in sweeps).
/// Throws BadInput and NotModelled (see `check`), and BadInput for a phase the model has not (decode of an encoder).
void lower(const Llm& llm, const Workload& workload, Graph& graph);
Graph lower(const Llm& llm, const Workload& workload);

}  // namespace plumbline
