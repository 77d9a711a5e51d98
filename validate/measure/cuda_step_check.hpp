// Holds the operators of a loaded step against their definitions in fp64, on what really lies in the step's buffers.
#pragma once

#include <vector>

#include "validate/measure/cuda_step_run.hpp"

namespace plumbline {

/// Runs the step operator by operator; first and last layer, embedding and head are compared, some outputs of each.
std::vector<StepOpCheck> check_step(const LoadedStep& step, const StepPrediction& priced, StreamHandle stream);

}  // namespace plumbline
