// Bytes that one rank must hold for a step. Formulas beside each part in memory.cpp and activations.cpp.
#pragma once

#include "ops/graph/graph.hpp"
#include "ops/graph/workload.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline {

/// Of the rank that needs most: of the fullest replica, and of the stage that holds most. A pipeline keeps the cache of
/// all its micro-batches, and the activations of one; in training those of all micro-batches that are under way in it.
/// Does not `check` the workload. Throws BadInput for formats that don't fit the phase (see lowering::types_of).
MemoryNeed memory_need(const Llm& llm, const Workload& workload);

/// Weight elements of a rank of that stage.
double local_params(const Llm& llm, const Workload& workload, std::int64_t stage = 0);

/// Rows and columns of its matrices, whose sums Adafactor keeps: one side of each is the hidden width, and a layer has four
/// (queries with keys and values, output, gate with up, down; of an expert two).
double factor_elements(const Llm& llm, const Workload& workload, std::int64_t stage = 0);

/// Bytes of a moment of 8 bits, with its part of the scale of 256.
inline constexpr double kMomentOf8Bits = 1 + 4.0 / 256;

}  // namespace plumbline
