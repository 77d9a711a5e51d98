// Kernels that do nothing but stand before and behind each case of a profiled run; the first one's grid says which case
// it is. A profiler's list of launches is in order, so what stands between the two are that case's launches, without
// the fills and preparations of the next. No CUDA type in here.
#pragma once

#include "kernels/common/launch.hpp"

namespace plumbline {

/// Launches the kernel `case_marker` with `number` + 1 CTAs. `number` counts from 0.
void mark_case(int number, StreamHandle stream);
/// Launches the kernel `case_end`.
void end_case(StreamHandle stream);

}  // namespace plumbline
