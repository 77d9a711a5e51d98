// The clock of the phases of a run, by hand and against what the rule was found on.
#include "model/predictor/regulator.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace plumbline::regulator_test {
namespace {

/// `times_aim` at the boost clock; power and pace go with the clock.
RegulatedPhase phase(double ms, double times_aim, bool repeats = false) {
  const Watts at_boost = times_aim * 100.0 * units::W;
  const Seconds time = ms * units::ms;
  return {{time, 1.25 * time, 2 * time}, {at_boost, 0.8 * at_boost, 0.5 * at_boost}, repeats};
}

std::vector<double> clocks(const std::vector<RegulatedPhase>& phases, double pace = 10, double top = 1,
                           std::int64_t repeats = 1) {
  std::vector<double> shares;
  clocks_of_phases(phases, {pace, 100.0 * units::W, top, {1, 0.8, 0.5}, repeats}, 0.9, shares);
  return shares;
}

TEST(Regulator, APhaseByItselfMeetsTheAim) { EXPECT_NEAR(clocks({phase(5000, 1.25)})[0], 0.8, 0.002); }

TEST(Regulator, LongPhasesEachMeetItWhereTheyCouldExceedIt) {
  const std::vector<double> shares = clocks({phase(60000, 1.25), phase(60000, 0.5)});
  EXPECT_NEAR(shares[0], 0.8, 0.005);
  EXPECT_NEAR(shares[1], 1, 0.005);
}

/// 1.5 and 0.75 of the aim: at 0.857 of the clock their mean, times alike, is 0.964; at 8/9 it is the aim.
TEST(Regulator, OfShortPhasesTheMeanMeetsIt) {
  const std::vector<double> shares = clocks({phase(3, 1.5), phase(3, 0.75)}, 2);
  EXPECT_NEAR(shares[0], 8.0 / 9, 0.01);
  EXPECT_NEAR(shares[1], shares[0], 0.01);
}

TEST(Regulator, ALockedClockIsNotExceeded) {
  for (const double share : clocks({phase(50, 1.2), phase(50, 0.4)}, 10, 0.7)) EXPECT_LE(share, 0.7 + 1e-12);
}

/// A hundred repeats of two phases and an update behind them are as the two alone, but for the first of them.
TEST(Regulator, RepeatsAreFollowedUntilTheyAreAlike) {
  const std::vector<double> alone = clocks({phase(30, 1.5), phase(30, 0.9)});
  const std::vector<double> many = clocks({phase(30, 1.5, true), phase(30, 0.9, true), phase(100, 0.5)}, 10, 1, 100);
  EXPECT_NEAR(many[0], alone[0], 0.01);
  EXPECT_NEAR(many[1], alone[1], 0.01);
  EXPECT_GT(many[2], many[1]);
}

}  // namespace
}  // namespace plumbline::regulator_test
