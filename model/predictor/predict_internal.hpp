// What predict_op.cpp and predict_step.cpp share.
#pragma once

#include "model/engine/machine.hpp"
#include "model/predict.hpp"

namespace plumbline {

/// What L2 holds of the operands, if they fit: nothing; what streams read, written by their predecessor (weights and
/// caches are cold); everything.
enum class Warmth { cold, streams, everything };

/// Prices at the boost clock, whatever the cap. Of the options, the plans count.
void predict_op(const Op& op, const Machine& machine, Warmth warmth, OpPrediction& out,
                const PredictOptions& options = {});

/// What binds the op and how wide its band is, from its launches' times.
void conclude(OpPrediction& op, const Machine& machine);

}  // namespace plumbline
