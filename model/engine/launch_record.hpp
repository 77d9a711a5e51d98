// What the engine did to price one launch: its terms as they were evaluated. Filled by price() when it is asked to
// (timing.hpp); reports print it.
#pragma once

#include "model/engine/demand.hpp"
#include "model/engine/formula.hpp"

namespace plumbline {

/// The body's time is pnorm(terms) + exposed.
struct LaunchRecord {
  double waves = 1;
  double ctas = 0;  ///< slots where CTAs are unequal
  PerResource<Written<Seconds>> alone;
  Written<Seconds> exposed;
  PerResource<bool> counts{};  ///< terms that pnorm() took; what it left out adds less than one part in 10^4
  double overlap = 0;          ///< p of the p-norm
  Seconds body;
  Written<Seconds> before;  ///< once a launch: fixed costs, dependent latencies, the link
  Seconds total;
};

}  // namespace plumbline
