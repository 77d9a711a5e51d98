// Inside of memory_need: what a layer keeps, counted apart from the rest (activations.cpp).
#pragma once

#include <vector>

#include "ops/memory/memory.hpp"
#include "ops/resolve/resolve.hpp"

namespace plumbline::lowering {

/// A stage of a pipeline that trains with so many micro-batches.
struct TrainingStage {
  std::int64_t number = 0, of = 1, micro_batches = 1;
};

/// Micro-batches whose activations a stage keeps at a time.
double under_way(const Workload& workload, const TrainingStage& stage);

/// Most bytes alive at a time in a forward-only step; and the bytes that the layers of a stage keep for the backward pass
/// of all micro-batches that are under way in it, `workload` being one micro-batch's.
Bytes live_activations(const Llm& llm, const Workload& workload, const Types& types);
Bytes stored_activations(const Llm& llm, const Workload& workload, const Types& types, const TrainingStage& stage = {});

/// Of those, in eager code, what is gone when the backward pass comes to the layers.
Bytes stored_behind_layers(const Llm& llm, const Workload& workload, const Types& types);

/// Bytes that one layer of a kind keeps for the backward pass of a micro-batch.
double kept_bytes_of(const Llm& llm, const Workload& rank, const Types& types, const StackSpec& stack,
                     std::size_t kind);

/// Elements of the logits of a rank; bytes that a layer keeps, of the one that keeps most.
double logits_of(const Llm& llm, const Workload& workload, const Types& types);
double most_of_a_layer(const Llm& llm, const Workload& workload, const Types& types);
/// Where a layer's backward pass holds much: bytes more than the layer has kept, and its parameters that have gradients by then,
/// and what it has kept. Of models with one stack of layers.
struct Beside {
  /// Layers in front of it: their number, what they keep, and their parameters, in all and of what autocast casts.
  struct Others {
    double layers = 0, kept = 0, params = 0, cast = 0;
  };
  double bytes = 0, params = 0, kept = 0;
  Others before{};    ///< of the first of its kind
  double whole = 0;   ///< all parameters of the layer
  bool last = false;  ///< the last layer is of its kind
};
std::vector<Beside> beside_layers(const Llm& llm, const Workload& workload, const Types& types);

/// Elements that the rank with most updates where whole tensors are dealt out to replicas, the largest first, each to the one
/// that has least by then (PyTorch's ZeroRedundancyOptimizer): so that all have as much, but where one tensor alone is more.
double dealt_share(const Llm& llm, const Workload& workload, double params);

/// What an eager framework holds where it holds most (eager.cpp). `params` elements, those of the head's matrix among them.
struct EagerRank {
  double params = 0;
  Bytes workspace;
  bool accumulates = false;  ///< gradients of several micro-batches
};
MemoryNeed eager_need(const Llm& llm, const Workload& workload, const Types& types, const EagerRank& of);

}  // namespace plumbline::lowering
