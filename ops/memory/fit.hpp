// Whether a step fits in a GPU's memory, and what would: by memory alone, whatever the time.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/graph/workload.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline {

/// All of one GPU kind. `reserve` of its capacity is the runtime's (CUDA context, allocator, NCCL); none of it is in
/// MemoryNeed.
struct Fit {
  Bytes capacity, reserve;
  bool fits = true;
  /// The largest batch of these lengths, and the longest sequence at this batch (decode: its context; prefill: cached
  /// and prompt tokens), with which it fits; 0: none. Unset: memory sets no limit below 2^40 tokens.
  std::optional<std::int64_t> max_batch, max_context;
  /// GPUs that hold it together, split over tensor ranks and the stages of a pipeline as its heads and layers allow. Unset:
  /// more than kMostGpus.
  std::optional<std::int64_t> fewest_gpus;

  static constexpr std::int64_t kMostGpus = 1024;
};

/// Does not `check` the workload. Throws BadInput as memory_need() does.
Fit fit_of(const Llm& llm, const Workload& workload, Bytes capacity, Bytes reserve);

/// Of two steps that the same memory must hold one after the other.
Fit both(const Fit& a, const Fit& b);

}  // namespace plumbline
