// Flags that spread a model over several GPUs.
#pragma once

#include "model/cli/common.hpp"
#include "model/machine.hpp"
#include "ops/graph/workload.hpp"

namespace plumbline::cli {

struct ParallelFlags {
  std::int64_t gpus = 1;
  bool gpus_given = false, tensor_given = false;
};

/// --gpus, the degrees and what goes with them, into `workload`.
void add_parallel_flags(const Command& app, ParallelFlags& flags, Workload& workload);
/// Makes the degrees and --gpus agree: without --tp, tensor ranks are what the other degrees leave. Throws BadInput where
/// they don't multiply to --gpus.
void settle_degrees(const ParallelFlags& flags, ParallelPlan& plan);
/// What is assumed of the ranks' places, and of a cluster that nobody named.
std::vector<std::string> parallel_remarks(const Workload& workload, const Machine& machine, bool cluster_given);

}  // namespace plumbline::cli
