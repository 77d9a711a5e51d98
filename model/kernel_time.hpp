// What a profiler calls a kernel's time.
#pragma once

#include "model/engine/rates.hpp"
#include "model/predict.hpp"

namespace plumbline {

/// Of one execution as a profiler shows it: without what it shows as idle between launches.
inline Seconds kernel_time(const OpPrediction& op) {
  if (op.launch_count == 0) return op.time;
  Seconds sum;
  for (int i = 0; i < op.launch_count; ++i) {
    const LaunchPrediction& launch = op.launches[static_cast<std::size_t>(i)];
    sum += launch.time.total + launch.family->gap_inside;
  }
  return sum;
}

}  // namespace plumbline
