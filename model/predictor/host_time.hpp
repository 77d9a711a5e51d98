// What the host adds to a step: the gaps between its launches, launches that it cannot issue faster, and what it does
// between one step and the next.
#pragma once

#include "model/predict.hpp"

namespace plumbline {

struct HostTime;  // model/stacks/stack.hpp

/// What passes between a step's last kernel and the first of the next while the GPU has nothing to do.
Seconds between_steps(const HostTime& host, const Workload& workload);

/// Calls that the host makes for the launches of one execution: a library's second launch of a split product, or of the
/// counter that it clears, is made in the call of the first.
int host_calls(const NodePrediction& node);

/// Sets the gap of each node, whose operators are priced. `between`: as above.
void set_gaps(StepPrediction& step, const Machine& machine, Runtime runtime, Seconds between);

}  // namespace plumbline
