// What the host of an eager step takes and what its GPU does, by the parts of a micro-batch.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "model/predict.hpp"
#include "model/predictor/waiting_loop.hpp"

namespace plumbline {

struct Rates;  // model/engine/rates.hpp

/// The parts of a micro-batch in the order in which the host issues them: what is in front of the layers (a root unit's
/// gather, the embedding), the layers, what is behind them (head, loss), and in the backward pass the other way round.
enum HostPart : std::size_t {
  kForwardFront,
  kForwardLayers,
  kForwardEnd,
  kBackwardEnd,
  kBackwardLayers,
  kBackwardFront,
  kParts
};

/// Of a step by its parts: what the host takes and what the GPU does.
struct HostAndGpu {
  /// Of what is in front of an update: of training, forward and backward passes.
  std::array<Seconds, kParts> host, gpu;
  Seconds behind;                  ///< what the GPU does behind those: the last sums of gradients, the update
  Seconds update;                  ///< what the host takes for lists of tensors of the update
  std::vector<WaitingLoop> loops;  ///< of the update, which the two above are without
  double slower_host = 1, slower_gpu = 1;
  double operators = 0;  ///< in front of the update, that run beside no other
  double updates = 0;    ///< of it
  bool trains = false;

  void scale(double times_host, double times_gpu);
  /// What passes in loops while the GPU does nothing.
  Seconds waits_in_loops() const;
};

Seconds sum_of_parts(const std::array<Seconds, kParts>& parts);

/// Of a step whose operators are priced, in an eager framework.
HostAndGpu host_and_gpu(const StepPrediction& step, const Machine& machine);

/// What a step adds to one execution beyond the graph gaps that op.time holds: every launch follows another kernel, and
/// outside graphs the host's gap is longer.
Seconds runtime_gap(const OpPrediction& op, const Rates& m, Runtime runtime);

/// Whether it has a backward pass or an update.
bool trains(const StepPrediction& step);

/// Copies and exchanges that run beside compute in a stream of their own.
bool travels_beside(const Graph& graph, const Node& node);

}  // namespace plumbline
