// What a profiler calls a kernel's time.
#pragma once

#include "model/engine/rates.hpp"
#include "model/predict.hpp"

namespace plumbline {

/// Of the gaps between launches, what a profiler shows inside its kernels' durations.
inline Seconds gaps_inside(const OpPrediction& op) {
  Seconds sum;
  for (int i = 0; i < op.launch_count; ++i) sum += op.launches[static_cast<std::size_t>(i)].family->gap_inside;
  return sum;
}

/// Of one execution as a profiler shows it: without what it shows as idle between launches.
inline Seconds kernel_time(const OpPrediction& op) {
  if (op.launch_count == 0) return op.time;
  Seconds sum = gaps_inside(op);
  for (int i = 0; i < op.launch_count; ++i) sum += op.launches[static_cast<std::size_t>(i)].time.total;
  return sum;
}

}  // namespace plumbline
