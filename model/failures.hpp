// What failures take of a long training: work since the last checkpoint is lost, and checkpoints are written.
#pragma once

#include <optional>

#include "arch/fabric/cluster.hpp"
#include "ops/graph/workload.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline {

/// With a checkpoint of c every t, failures of the run every m and r from one to the next iteration, the share of time that
/// trains is 1 - c / t - (t / 2 + r) / m: a failure finds half of the time between two checkpoints undone. It is most where
/// t = sqrt(2 c m) (Young, "A first order approximation to the optimum checkpoint interval", 1974). Valid where c is much
/// less than m; nothing fails while checkpoints are written or read, and GPUs fail by themselves, each as often.
struct Failures {
  Seconds between;  ///< failures of the run: a GPU's mean time, by their number
  Seconds
      checkpoint;  ///< nodes write their shares at once; where only rates of reading are on file, as fast as they read
  Seconds interval;
  Seconds restart;    ///< from a failure to the next iteration: what is asked for, and each node's shares are read
  double trains = 0;  ///< share of time
};

struct FailureRates {
  Seconds of_gpu;   ///< mean time between failures that stop the run
  Seconds restart;  ///< to find one out and to have all processes up again
};

/// Weights and states are in a checkpoint once, whoever holds copies. `storage`: what a node reads a second, else the
/// cluster's quickest. Throws BadInput where none is on file, or where nothing is left to train.
Failures failures_of(const Llm& llm, const Workload& workload, const Cluster& cluster, const FailureRates& rates,
                     std::optional<Bandwidth> storage);

}  // namespace plumbline
