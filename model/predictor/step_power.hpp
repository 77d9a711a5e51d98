// Energy and mean power of a step, and the clock at which it meets the cap.
#pragma once

#include "model/predict.hpp"
#include "model/schedule/side_by_side.hpp"

namespace plumbline {

/// One clock for all of the step, as the regulator takes tens of ms: the one at which the power of its phases, each for
/// as long as it takes at that clock, has the cap as its mean. Waits of a pipeline that last longer than a regulator
/// looks back hardly count in that mean. Of cards that wait for one another it is the clock of the one whose chip takes
/// most; the others draw less at it.
void settle(StepPrediction& out, const Machine& machine, const RunOptions& options, SideBySide& side_by_side);

}  // namespace plumbline
