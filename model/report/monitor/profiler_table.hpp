// A step in the columns of PyTorch's profiler.
#pragma once

#include <string>

#include "model/report/report.hpp"

namespace plumbline {

/// Name, CUDA total, CUDA %, CUDA time avg, # of Calls, most time first; kernels without the gaps between them.
std::string step_profiler(const StepReport& report);

}  // namespace plumbline
