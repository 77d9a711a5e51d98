// Energy and mean power of a step, and the clock at which it meets the cap.
#pragma once

#include "model/predict.hpp"
#include "model/schedule/side_by_side.hpp"

namespace plumbline {

/// The clock of each phase of a step, as the regulator moves it in tens of ms (regulator.hpp): a step of one phase, or of
/// short ones, is at the clock at which its mean power meets the cap. Of cards that wait for one another it is the clock of
/// the one whose chip takes most; the others draw less at it.
void settle(StepPrediction& out, const Machine& machine, const RunOptions& options, SideBySide& side_by_side);

}  // namespace plumbline
