// Loops over an update's tensors in which the host waits for the GPU.
#pragma once

#include <vector>

#include "arch/units.hpp"

namespace plumbline {

/// Launches of one turn in order, and how often the loop is gone through. Optimizers that read a norm back, or
/// synchronize behind each tensor, keep the host from running ahead: such a loop takes neither what the host does nor
/// what the GPU does, but the two by turns.
struct WaitingLoop {
  struct Call {
    Seconds host, gpu;
    bool waits = false;  ///< the host does, until it is done
  };
  std::vector<Call> calls;
  double repeat = 1;

  /// What the GPU does in it.
  Seconds gpu() const;
  /// What it takes, were host and GPU so many times as slow.
  Seconds time(double times_host, double times_gpu) const;
};

}  // namespace plumbline
