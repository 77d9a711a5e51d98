// What the engine did to price one launch: its terms as they were evaluated, wave by wave. Filled by price() when it is
// asked to (timing.hpp); reports print it.
#pragma once

#include <vector>

#include "model/engine/demand.hpp"
#include "model/engine/formula.hpp"

namespace plumbline {

/// `times` equal waves. Their time is pnorm(terms) + exposed.
struct WaveRecord {
  double times = 1;
  double ctas = 0;  ///< that run together
  PerResource<Written<Seconds>> alone;
  Written<Seconds> exposed;
  PerResource<bool> counts{};  ///< terms that pnorm() took; what it left out adds less than one part in 10^4
  double overlap = 0;          ///< p of the p-norm
  Seconds time;                ///< of one wave
};

struct LaunchRecord {
  std::vector<WaveRecord> waves;
  Written<Seconds> before;  ///< once a launch: fixed costs, dependent latencies, the link
  Seconds total;
};

}  // namespace plumbline
