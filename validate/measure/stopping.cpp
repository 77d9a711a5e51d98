#include "validate/measure/stopping.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline {

namespace {

constexpr std::size_t kWarmUps = 3, kMostWarmUps = 2048;
constexpr Seconds kWarmUpAtMost = 10.0 * units::ms;
constexpr std::size_t kFewestSamples = 10, kMostSamples = 30, kSamplesOfLong = 5;
constexpr Seconds kBurst = 20.0 * units::ms, kLong = 6.0 * units::ms;
constexpr std::size_t kMostGraphNodes = 16384;
constexpr Seconds kGraphAtLeast = 5.0 * units::ms;
constexpr Seconds kSettleAtLeast = 1.2 * units::s, kSettleAtMost = 2.0 * units::s, kPart = 0.3 * units::s;
constexpr Seconds kWindow = 0.6 * units::s, kEnergyStepAtMost = 0.25 * units::s;
constexpr double kSettled = 0.01;

template <class Unit>
bool moved(const Unit& now, const Unit& before) {
  return std::abs(std::log(now / before)) >= kSettled;
}

}  // namespace

std::size_t burst_samples(Seconds one) {
  if (one > kLong) return kSamplesOfLong;
  const double fit = kBurst / std::max(one, 1.0 * units::us);
  return static_cast<std::size_t>(
      std::clamp(fit, static_cast<double>(kFewestSamples), static_cast<double>(kMostSamples)));
}

std::size_t burst_warm_ups(Seconds one, std::size_t slots) {
  if (one > kLong) return 1;
  const bool whole = slots <= kMostWarmUps && one * static_cast<double>(slots) <= kWarmUpAtMost;
  return whole ? std::max(kWarmUps, slots) : kWarmUps;
}

std::int64_t rotation_slots(CacheState cache, Bytes l2, Bytes slot, std::int64_t most) {
  if (cache == CacheState::warm) return 1;
  const double turn = std::ceil(kColdL2s * (l2 / slot));
  return std::min(most, std::max(std::int64_t{2}, static_cast<std::int64_t>(turn)));
}

std::size_t most_steady_slots(std::size_t launches) { return kMostGraphNodes / std::max<std::size_t>(1, launches); }

std::size_t steady_executions(Seconds one, std::size_t launches, std::size_t slots) {
  const double rounds = kGraphAtLeast / (one * static_cast<double>(slots));
  return std::min(most_steady_slots(launches) / slots, static_cast<std::size_t>(rounds) + 1) * slots;
}

bool Settling::due(Seconds passed) const { return passed >= kSettleAtMost || passed - last_ >= kPart; }

bool Settling::settled(Seconds passed, const Conditions& part) {
  const Conditions before = before_;
  before_ = part;
  last_ = passed;
  if (passed >= kSettleAtMost) return true;
  if (passed < kSettleAtLeast) return false;
  if (!part.sm_clock || !part.power || !before.sm_clock || !before.power) return true;
  return !moved(*part.sm_clock, *before.sm_clock) && !moved(*part.power, *before.power);
}

EnergyWindow::Act EnergyWindow::look(Seconds passed, bool stepped) {
  if (!opened_) {
    if (!stepped && passed <= kEnergyStepAtMost) return Act::wait;
    opened_ = passed;
    at_step_ = stepped;
    return Act::open;
  }
  const Seconds open = passed - *opened_;
  if (open < kWindow) return Act::wait;
  return stepped || !at_step_ || open > kWindow + kEnergyStepAtMost ? Act::close : Act::wait;
}

}  // namespace plumbline
