// What predict_op.cpp and predict_step.cpp share.
#pragma once

#include "model/machine.hpp"
#include "model/predict.hpp"

namespace plumbline {

/// `warm`: the operator's inputs were written by its predecessor and stay in L2 when they fit.
void predict_op(const Op& op, const Machine& machine, bool warm, OpPrediction& out);

}  // namespace plumbline
