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

/// What hosts take of the time that a step is priced with, 5 and 95 % of them; 0: nobody found it, or nothing goes by it.
struct HostSpread {
  double quick = 0, slow = 0;
};

/// Of steps that train and are launched one by one.
HostSpread spread_of_hosts(const StepPrediction& step, const Machine& machine);

/// The latency of such a step if its host and its GPU took so many times as long.
Seconds latency_with(const StepPrediction& step, const Machine& machine, double times_host, double times_gpu);

/// Sets the gap of each node, whose operators are priced. `between`: as above.
void set_gaps(StepPrediction& step, const Machine& machine, Runtime runtime, Seconds between);

}  // namespace plumbline
