// What one rank of a parallel plan holds and sees: its sequences, its experts, its stage's layers.
//
// Not for users of the library: they call `lower` (ops/lower/lower.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "ops/graph/workload.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline::lowering {

/// Sequences of the fullest replica, and parts that its pipeline works on at a time.
std::int64_t replica_batch(const Workload& workload);
std::int64_t micro_batches(const Workload& workload);
/// What one rank of the fullest replica works on at a time: `batch` is a micro-batch's.
Workload rank_workload(const Workload& workload);

/// Where the experts of a layer live and how tokens come to them.
struct ExpertPlan {
  std::int64_t ranks = 1;        ///< that the experts are dealt to; each has ceil(experts / ranks)
  std::int64_t width_split = 1;  ///< tensor ranks among which each expert's width is split
  /// Each rank sends its tokens to the ranks of their experts and takes them back: all-to-all. Else the ranks of a tensor
  /// group hold the same tokens, each takes those of its experts, and their all-reduce adds up.
  bool exchanged = false;
  double fullest = 1;  ///< rows of the fullest rank / mean
  double skew = 0;  ///< percent by which its hottest expert exceeds its mean, at most 100 (ops/shape/grouped_gemm.hpp)
};
ExpertPlan expert_plan(const Workload& workload, const FfnSpec& ffn);

/// The residual stream of a rank holds a share of its replica's tokens: by choice (sequence parallelism, data-parallel
/// attention), or because experts take tokens from all ranks.
bool scattered(const Llm& llm, const Workload& workload);

/// Layers [first, last) of the main stack that pipeline stage `stage` of `stages` runs: neighbouring layers, as evenly as
/// they divide; the first stages have one more.
struct StageLayers {
  std::int64_t first = 0, last = 0;
};
StageLayers stage_layers(std::int64_t layers, std::int64_t stages, std::int64_t stage);
/// How often each kind of layer of `stack` is among those.
std::vector<std::int64_t> layers_by_kind(const StackSpec& stack, const StageLayers& range);
/// The same of a stage; of stacks beside the main one all are in the first stage.
std::vector<std::int64_t> layers_of_stage(const Llm& llm, const StackSpec& stack, std::int64_t stages,
                                          std::int64_t stage);

/// Throws BadInput where the model's own sizes forbid the plan (heads, layers, experts), naming the rule and the nearest
/// degree that keeps it; NotModelled for what is not.
void refuse_plan(const Llm& llm, const Workload& workload);
/// Whether neither check() nor refuse_plan() would refuse the plan.
bool allowed(const Llm& llm, const Workload& workload);

}  // namespace plumbline::lowering
