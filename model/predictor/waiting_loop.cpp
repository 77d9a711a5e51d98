#include "model/predictor/waiting_loop.hpp"

#include <algorithm>

namespace plumbline {

Seconds WaitingLoop::gpu() const {
  Seconds sum;
  for (const Call& call : calls) sum += call.gpu;
  return repeat * sum;
}

/// The GPU begins a launch when the host has issued it and the one before is done. What is behind the last wait runs
/// while the host issues the next turn's, so that the second turn is like all that follow.
Seconds WaitingLoop::time(double times_host, double times_gpu) const {
  Seconds issued, done, behind_first;
  for (int turn = 0; turn < 2; ++turn) {
    behind_first = done;
    for (const Call& call : calls) {
      issued += times_host * call.host;
      done = std::max(done, issued) + times_gpu * call.gpu;
      if (call.waits) issued = done;
    }
  }
  return repeat * (done - behind_first);
}

}  // namespace plumbline
