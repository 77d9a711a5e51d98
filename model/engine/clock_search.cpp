// The clock at which a run meets the cap, found from as few prices of the run as possible.
#include <algorithm>
#include <cmath>

#include "model/engine/power.hpp"

namespace plumbline {

Watts binding_power(const PowerScalars& p, Watts cap, const RunEnergy& run, double share, Seconds time) {
  const Watts board = run_power(p, share, run, time);
  if (p.tensor_limit <= Watts{}) return board;
  return std::max(board, cap * (voltage_squared(p, share) * run.tensor_estimate / time / p.tensor_limit));
}

ClockSearch::ClockSearch(const PowerScalars& power, Watts cap, const RunEnergy& run, Seconds time_at_boost)
    : power_(power), cap_(cap), run_(run) {
  unlimited_ = binding_power(power, cap, run, 1, time_at_boost) <= cap;
  high_ = {1, 0, std::log(time_at_boost.in(units::s))};
}

/// d ln t / d ln share where the next guess will be. ln t bends upwards towards low clocks: the line between the points
/// around the answer leads above the cap, the line through the two above it leads below; so they take turns. Before
/// there are two points, as if all of the time were SM cycles.
double ClockSearch::time_slope() const {
  const Point& other = low_.share > 0 && (last_below_ || above_.share <= 0) ? low_ : above_;
  if (other.share <= 0 || other.share == high_.share) return -1;
  return std::clamp((other.log_time - high_.log_time) / (other.log_share - high_.log_share), -1.0, 0.0);
}

/// The share between the bracket's ends at which the power comes to `aim` of the cap.
double ClockSearch::aim_share(double aim) const {
  constexpr int kHalvings = 22;
  const double slope = time_slope();
  double low = std::max(low_.share, kLowestClockShare), high = high_.share;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = 0.5 * (low + high);
    const Seconds time = std::exp(high_.log_time + slope * (std::log(middle) - high_.log_share)) * units::s;
    if (binding_power(power_, cap_, run_, middle, time) > aim * cap_) high = middle;
    else low = middle;
  }
  return low;
}

double ClockSearch::guess() const {
  // a little below the cap, more so when steps run out, so that the last does not end a little above it
  const bool pressed = told_ + 1 >= kMostClockSteps && low_.share <= 0;
  if (told_ >= kMostClockSteps) {
    return low_.share > 0 ? 0.5 * (low_.share + high_.share) : std::max(kLowestClockShare, 0.8 * high_.share);
  }
  return aim_share(pressed ? 0.998 : 0.9998);
}

bool ClockSearch::tell(double share, Seconds time) {
  ++told_;
  const Point now{share, std::log(share), std::log(time.in(units::s))};
  const Watts power = binding_power(power_, cap_, run_, share, time);
  last_below_ = power <= cap_;
  if (last_below_) {
    if (share > low_.share) low_ = now;
    near_ = near_ || power >= 0.997 * cap_;
    return power >= 0.9996 * cap_;
  }
  above_ = high_;
  high_ = now;
  return share <= kLowestClockShare * (1 + 1e-9);
}

}  // namespace plumbline
