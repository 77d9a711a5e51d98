// What a power regulator does to steps of a burst. It acts at moments of its own: work that draws more than the cap, behind
// a pause, runs on at the boost clock until then, however much it draws and whatever was before, and within some tens of ms
// more at the clock that long runs settle at. Over many bursts the mean way from the one to the other, in logarithms, is a
// straight line between two times since the work began (data/measurements/h200/pytorch/regulator.jsonl).
#pragma once

#include <optional>

#include "arch/calibration/calibration.hpp"
#include "arch/units.hpp"

namespace plumbline {

struct RegulatorDelay {
  Seconds from, by;

  /// Mean share of the way that is gone while work runs that begins and ends so long behind the pause.
  double way(Seconds begin, Seconds end) const;
};
/// Of a card whose file has both times; else nothing.
std::optional<RegulatorDelay> regulator_delay(const Calibration& calibration);

/// Share of the way that is gone in the step whose time stands for a burst of steps (StepBurst).
double way_of_burst(const RegulatorDelay& delay, Seconds step);

}  // namespace plumbline
