// Flags that spread a model over several GPUs.
#pragma once

#include "model/cli/common.hpp"
#include "model/machine.hpp"
#include "model/question/question.hpp"
#include "ops/graph/workload.hpp"

namespace plumbline::cli {

/// --gpus, the degrees and what goes with them, into `workload`.
void add_parallel_flags(const Command& app, ParallelChoice& choice, Workload& workload);
/// What is assumed of the ranks' places, and of a cluster that nobody named.
std::vector<std::string> parallel_remarks(const Workload& workload, const Machine& machine, bool cluster_given);

}  // namespace plumbline::cli
