#include "validate/compare/busy.hpp"

#include <algorithm>

namespace plumbline {

double busy_share(const Measurement& row) {
  const std::optional<Watts> mean = row.power();
  if (!mean || !row.energy || *row.energy <= Joules{}) return 1;
  return std::min(1.0, row.time * *mean / *row.energy);
}

Watts without_waits(Watts mean, double busy, Watts waiting) { return waiting + (1 / busy) * (mean - waiting); }

std::optional<Watts> power_while_busy(const Measurement& row, Watts waiting, Watts cap) {
  constexpr double kLeast = 0.7, kLeastAtTheCap = 0.9, kFree = 0.75;  // as the fit of energies has it
  constexpr double kNoWaits = 0.999;
  const std::optional<Watts> mean = row.power();
  const double busy = busy_share(row);
  if (!mean || busy >= kNoWaits) return mean;
  if (busy < (*mean > kFree * cap ? kLeastAtTheCap : kLeast)) return std::nullopt;
  return without_waits(*mean, busy, waiting);
}

}  // namespace plumbline
