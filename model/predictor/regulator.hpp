// The clock of each phase of a run that is repeated, as the regulator of the board's power moves it.
//
// The regulator integrates: as long as the power p lies above what it aims at it lowers the clock, below that it raises it,
//
//   d(share of the boost clock) / dt = -pace x (p / aim - 1),    to the boost clock or a locked one at most.
//
// So where phases are short their mean power meets the aim; where they are long each does that could exceed it: one relaxes
// to its own clock, another is back at the boost clock after some tens of ms, and what it draws less than the aim is lost
// from then on. One pace gives the time of a product of 8192^3 at the cap beside pauses and beside sums of columns, over
// periods of 20 ms to 4 s on three H200 (data/measurements/h200/pytorch/cap_pauses.csv, cap_phases.csv, cap_thirds.csv;
// tools/fit_regulator.py): 22 of them to 1.4 % rms, their mean powers to 2.8. Not in it: at periods of 60 to 100 ms the mean
// stays 2 to 5 % below the aim. No other board was measured.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "arch/units.hpp"
#include "model/engine/power.hpp"

namespace plumbline {

/// A part of a run whose work stays alike: its time and the power that counts for the clock, at each of
/// `RegulatedRun::shares` of the boost clock.
struct RegulatedPhase {
  std::array<Seconds, 3> time;
  std::array<Watts, 3> power;
  bool repeats = false;  ///< with the other such phases around it, `RegulatedRun::repeats` times a run
};

struct RegulatedRun {
  double pace = 0;  ///< PowerScalars::regulator_pace
  Watts aim;
  double top = 1;                              ///< the share of the boost clock that is not exceeded
  std::array<double, 3> shares{1, 0.85, 0.7};  ///< falling
  std::int64_t repeats = 1;
};

/// The mean share of the boost clock of each phase, of a run that is repeated without an end. `start`: the share at which
/// the first run begins. Between two shares power is taken as a power of the clock, time as a straight line over its inverse;
/// below the last of them as between the last two.
void clocks_of_phases(std::span<const RegulatedPhase> phases, const RegulatedRun& run, double start,
                      std::vector<double>& shares);

}  // namespace plumbline
