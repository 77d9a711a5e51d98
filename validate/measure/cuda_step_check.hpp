// Holds the operators of a loaded step against their definitions in fp64, on what really lies in the step's buffers.
#pragma once

#include <vector>

#include "validate/measure/cuda_step_ranks.hpp"

namespace plumbline {

/// Runs the step operator by operator; first and last layer, embedding and head are compared, some outputs of each. Of
/// several ranks each one's operators are, an all_reduce with the sum over the ranks of what it adds and, behind a matrix
/// product, with the product over all ranks' columns in fp64; its results must be the same bits on all ranks. Then graphs
/// of the step are replayed on tokens that change: their logits must be the bits of the step operator by operator.
std::vector<StepOpCheck> check_step(StepRanks& ranks, const StepPrediction& priced);

}  // namespace plumbline
