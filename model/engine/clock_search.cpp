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

namespace {

/// Between which two points a rising function passes zero.
struct Between {
  double low, high;
};

/// By the secant through the ends of the bracket, an end that stays counting half each time (the Illinois rule); to one
/// part in 1e8, or as near as few calls come: a kink of the function next to where it passes takes more.
template <class Function>
Between passes_zero(double low, double at_low, double high, double at_high, const Function& f) {
  constexpr int kMostCalls = 12;
  constexpr double kNear = 1e-10, kBeside = 1e-8;
  int side = 0;
  for (int i = 0; i < kMostCalls && high - low > kNear * high; ++i) {
    const double x = low - at_low * (high - low) / (at_high - at_low), at_x = f(x);
    if (std::abs(at_x) < kNear) return {x * (1 - kBeside), x * (1 + kBeside)};
    if (at_x > 0) {
      high = x, at_high = at_x;
      if (side > 0) at_low *= 0.5;
      side = 1;
    } else {
      low = x, at_low = at_x;
      if (side < 0) at_high *= 0.5;
      side = -1;
    }
  }
  return {low * (1 - kBeside), high * (1 + kBeside)};
}

}  // namespace

/// The share between the bracket's ends at which the power comes to `aim` of the cap: by halving, so that the answer does
/// not go with how it is found. Power rises with the clock, so that only what lies next to where it passes is asked for.
double ClockSearch::aim_share(double aim) const {
  constexpr int kHalvings = 22;
  const double slope = time_slope();
  const Watts wanted = aim * cap_;
  const auto power_at = [&](double share) {
    const Seconds time = std::exp(high_.log_time + slope * (std::log(share) - high_.log_share)) * units::s;
    return binding_power(power_, cap_, run_, share, time);
  };
  const auto over = [&](double share) { return power_at(share) / wanted - 1; };
  double low = std::max(low_.share, kLowestClockShare), high = high_.share;
  const double at_low = over(low), at_high = over(high);
  Between passes{low, low};
  if (at_low < 0) passes = at_high <= 0 ? Between{high, high} : passes_zero(low, at_low, high, at_high, over);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = 0.5 * (low + high);
    const bool beside = middle >= passes.low && middle <= passes.high;
    if (beside ? power_at(middle) > wanted : middle > passes.high) high = middle;
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
