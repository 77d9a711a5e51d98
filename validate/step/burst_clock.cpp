#include "validate/step/burst_clock.hpp"

#include <algorithm>

#include "validate/record/step.hpp"

namespace plumbline {

double RegulatorDelay::way(Seconds begin, Seconds end) const {
  // the integral of the line up to `t`, which is 0 before `from` and rises with t itself behind `by`
  const auto gone = [this](Seconds t) {
    const Seconds on_the_line = std::clamp(t, from, by) - from;
    return 0.5 * on_the_line * (on_the_line / (by - from)) + std::max(t - by, Seconds{});
  };
  return (gone(end) - gone(begin)) / (end - begin);
}

std::optional<RegulatorDelay> regulator_delay(const Calibration& calibration) {
  const auto from = calibration.machine.find("regulator_acts_from_s"),
             by = calibration.machine.find("regulator_acts_by_s");
  if (from == calibration.machine.end() || by == calibration.machine.end()) return {};
  if (from->second.value < 0 || by->second.value <= from->second.value) return {};
  return RegulatorDelay{from->second.value * units::s, by->second.value * units::s};
}

double way_of_burst(const RegulatorDelay& delay, Seconds step) {
  const auto before = static_cast<double>(StepBurst::before_median(step));
  return delay.way(before * step, (before + 1) * step);
}

}  // namespace plumbline
