#include <algorithm>

#include "validate/record/step.hpp"

namespace plumbline {

std::size_t StepBurst::counted(Seconds one) {
  constexpr Seconds kBurst = 30.0 * units::ms;
  constexpr double kFewest = 4, kMost = 30;
  return static_cast<std::size_t>(std::clamp(kBurst / one, kFewest, kMost));
}

std::size_t StepBurst::before_median(Seconds one) {
  const std::size_t first = kWarmUps + 1, timed = counted(one) - 1;
  return first + (timed - 1) / 2;
}

}  // namespace plumbline
