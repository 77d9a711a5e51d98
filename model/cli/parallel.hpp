// Flags that spread a model over several GPUs.
#pragma once

#include "model/cli/common.hpp"
#include "model/machine.hpp"
#include "model/stacks/stack.hpp"
#include "ops/graph/workload.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline::cli {

/// --overlap: just that; `stack` and `full`: what the plan has of what the stack does, or of all that is modelled.
enum class OverlapChoice { none, stack, two_batch, sends, full };

struct ParallelFlags {
  std::int64_t gpus = 1;
  bool gpus_given = false, tensor_given = false;
  OverlapChoice overlap = OverlapChoice::stack;
};

/// --gpus, the degrees and what goes with them, into `workload`.
void add_parallel_flags(const Command& app, ParallelFlags& flags, Workload& workload);
/// Makes the degrees and --gpus agree: without --tp, tensor ranks are what the other degrees leave. Throws BadInput where
/// they don't multiply to --gpus.
void settle_degrees(const ParallelFlags& flags, ParallelPlan& plan);
/// What of the communication runs beside compute. Throws BadInput where something was asked for that the plan has not.
Overlap settle_overlap(OverlapChoice choice, const Llm& llm, const Workload& workload, const Stack& stack);
/// What is assumed of the ranks' places, and of a cluster that nobody named.
std::vector<std::string> parallel_remarks(const Workload& workload, const Machine& machine, bool cluster_given);

}  // namespace plumbline::cli
