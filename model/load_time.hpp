// How long the weights take from storage to all ranks, before a first step can run.
#pragma once

#include <optional>

#include "model/predict.hpp"

namespace plumbline {

struct LoadTime {
  Seconds host;                    ///< from the host's memory to the GPU, all GPUs of a node at once
  std::optional<Seconds> storage;  ///< from storage to the host; unset: nothing says how fast the nodes read
  /// Both go on at the same time, file by file: the slower of the two.
  std::optional<Seconds> total() const {
    if (!storage) return std::nullopt;
    return *storage > host ? *storage : host;
  }
};

/// A node reads each byte of the model once, however many of its GPUs hold it, and no more than its GPUs hold; GPUs that
/// share a port of the host take turns. `weights`: of the rank that holds most; `model`: of all of the model.
/// `storage`: what a node reads a second; else the fastest that the cluster's file has.
LoadTime load_time(Predictor& predictor, const Machine& machine, const ParallelPlan& plan, Bytes weights, Bytes model,
                   std::optional<Bandwidth> storage);

}  // namespace plumbline
