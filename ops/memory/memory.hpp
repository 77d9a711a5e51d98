// Bytes that one rank must hold for a step. Formulas beside each part in memory.cpp and activations.cpp.
#pragma once

#include <vector>

#include "ops/graph/graph.hpp"
#include "ops/graph/workload.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline {

/// Of the rank that needs most: of the fullest replica, and of the stage that holds most. A pipeline keeps the cache of
/// all its micro-batches, and the activations of one; in training those of all micro-batches that are under way in it.
/// Does not `check` the workload. Throws BadInput for formats that don't fit the phase (see lowering::types_of).
MemoryNeed memory_need(const Llm& llm, const Workload& workload);
/// Of each stage, of a rank of its fullest replica.
std::vector<MemoryNeed> memory_of_stages(const Llm& llm, const Workload& workload);

/// Weight elements of a rank of that stage.
double local_params(const Llm& llm, const Workload& workload, std::int64_t stage = 0);

/// Weight elements of a rank that so many ranks of its stage, `apart` from each other, hold the same of: gradients are
/// added up over those.
struct Copies {
  double params = 0;
  std::int64_t ranks = 1, apart = 1;
  double share() const { return params / static_cast<double>(ranks); }
};

/// local_params() by the ranks that hold them. Where experts are dealt out as all else is split they are among `dense`.
struct HeldParams {
  Copies dense;    ///< what replicas and the ranks of a sequence have in common
  Copies shared;   ///< experts of every token that tensor ranks have whole, each for its own tokens
  Copies experts;  ///< routed ones: each group of ranks that holds all of them once has a copy
  double total() const { return dense.params + shared.params + experts.params; }
  /// Where each of the ranks that hold a part has its share of it; by how much all is divided in the mean.
  double share() const { return dense.share() + shared.share() + experts.share(); }
  double divided_by() const {
    const bool alike = shared.params == 0 && experts.params == 0;
    return alike ? static_cast<double>(dense.ranks) : total() / share();
  }
};
HeldParams held_params(const Llm& llm, const Workload& workload, std::int64_t stage = 0);

/// Master weights and states of a rank of that stage.
Bytes optimizer_states(const Llm& llm, const Workload& workload, std::int64_t stage = 0);

/// What one layer of a kind of `stack` keeps for the backward pass of a micro-batch, whose workload of one rank it is.
Bytes kept_of_layer(const Llm& llm, const Workload& rank, const StackSpec& stack, std::size_t kind);

/// Rows and columns of its matrices, whose sums Adafactor keeps: one side of each is the hidden width, and a layer has four
/// (queries with keys and values, output, gate with up, down; of an expert two).
double factor_elements(const Llm& llm, const Workload& workload, std::int64_t stage = 0);

/// Bytes of a moment of 8 bits, with its part of the scale of 256.
inline constexpr double kMomentOf8Bits = 1 + 4.0 / 256;

}  // namespace plumbline
