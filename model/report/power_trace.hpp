// Board power over the time of one step: each operator in order, at its own mean power, and the gaps between.
//
// Within an operator power is its mean: prologues, tails and the launches of a split operator are not told apart. All
// of it is at one clock where the step settles under a cap, as the regulator takes tens of ms.
#pragma once

#include <cstdint>
#include <vector>

#include "model/predict.hpp"

namespace plumbline {

struct PowerSlice {
  const NodePrediction* node = nullptr;
  bool gap = false;  ///< the wait before the next launch that the host or the stream leaves exposed
  Seconds start, duration;
  Watts power;
};

/// One repetition of a segment; its repeats follow at `period`.
struct PowerSegment {
  const Segment* segment = nullptr;
  std::int64_t repeat = 1;
  Seconds start, period;
  std::vector<PowerSlice> slices;  ///< of the first repetition
};

/// Empty for a step without energies. Points into `step`. Energies of all slices and repeats sum to the step's.
std::vector<PowerSegment> power_trace(const StepPrediction& step);

/// Waits shorter than this leave no dip in the power of a board: its regulators and capacitors average over tens of us.
inline constexpr Seconds kShortestWait = 5.0 * units::us;

/// The same with short waits counted to the slice before them: as a plot or a counter shows it. Energies stay.
std::vector<PowerSegment> board_power(std::vector<PowerSegment> trace);

}  // namespace plumbline
