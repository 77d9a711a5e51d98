// The clock of each phase of a run that is repeated, as the regulator of the board's power moves it.
//
// The regulator integrates, and what it knows of the power p lags behind:
//
//   d(known) / dt = (p - known) / lag,    d(share of the boost clock) / dt = -rate x (known / aim - 1),
//
// with a rate down and a lower one up, to the boost clock or a locked one at most. So where phases are short their mean power
// meets the aim; where they are long each does that could exceed it, and what the others draw less is lost from then on; and
// between, what it lowers fast and raises slowly, the mean stays below the aim. The three numbers were found on products of
// 8192^3 at the cap beside pauses and beside sums of columns, periods of 20 ms to 4 s on two H200
// (data/measurements/h200/pytorch/cap_pauses.csv, cap_phases.csv): twelve times of a product and twelve mean powers come out
// within 1.7 %. No other board was measured.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arch/units.hpp"
#include "model/engine/power.hpp"

namespace plumbline {

/// A part of a run whose work stays alike: its time and the power that counts for the clock, at the boost clock and at
/// the share `RegulatedRun::lower` of it.
struct RegulatedPhase {
  Seconds time, time_lower;
  Watts power, power_lower;
  bool repeats = false;  ///< with the other such phases around it, `RegulatedRun::repeats` times a run
};

struct RegulatedRun {
  Watts aim;
  double top = 1;      ///< the share of the boost clock that is not exceeded
  double lower = 0.8;  ///< below 1
  std::int64_t repeats = 1;
};

/// The mean share of the boost clock of each phase, of a run that is repeated without an end. `start`: the share at which
/// the first run begins. Of each phase power is taken as a power of the clock, time as a straight line over its inverse.
void clocks_of_phases(std::span<const RegulatedPhase> phases, const PowerScalars::Regulator& regulator,
                      const RegulatedRun& run, double start, std::vector<double>& shares);

}  // namespace plumbline
