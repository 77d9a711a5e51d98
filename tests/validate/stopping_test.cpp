#include "validate/measure/stopping.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace plumbline::stopping_test {
namespace {

using units::ms;
using units::s;
using units::us;

TEST(BurstSamples, FillTwentyMilliseconds) {
  EXPECT_EQ(burst_samples(0.1 * us), 30U);
  EXPECT_EQ(burst_samples(100.0 * us), 30U);
  EXPECT_EQ(burst_samples(1.0 * ms), 20U);
  EXPECT_EQ(burst_samples(5.0 * ms), 10U);
  EXPECT_EQ(burst_samples(6.0 * ms), 10U);
  EXPECT_EQ(burst_samples(6.1 * ms), 5U);
}

TEST(BurstWarmUps, AreAWholeRotationWhereThatIsShort) {
  EXPECT_EQ(burst_warm_ups(5.0 * us, 100), 100U);
  EXPECT_EQ(burst_warm_ups(5.0 * us, 2), 3U);        // never fewer than three
  EXPECT_EQ(burst_warm_ups(5.0 * us, 2000), 2000U);  // 10 ms
  EXPECT_EQ(burst_warm_ups(5.1 * us, 2000), 3U);     // more than 10 ms
  EXPECT_EQ(burst_warm_ups(0.1 * us, 2048), 2048U);
  EXPECT_EQ(burst_warm_ups(0.1 * us, 2049), 3U);
  EXPECT_EQ(burst_warm_ups(7.0 * ms, 2), 1U);
}

TEST(RotationSlots, HoldThreeTimesTheL2) {
  const Bytes l2 = 60.0 * units::MiB;
  EXPECT_EQ(rotation_slots(CacheState::warm, l2, 1.0 * units::MiB, 1000), 1);
  EXPECT_EQ(rotation_slots(CacheState::cold, l2, 1.0 * units::MiB, 1000), 192);
  EXPECT_EQ(rotation_slots(CacheState::cold, l2, 1.0 * units::MiB, 50), 50);  // memory for no more
  EXPECT_EQ(rotation_slots(CacheState::cold, l2, 1000.0 * units::MiB, 1000), 2);
  EXPECT_EQ(rotation_slots(CacheState::cold, l2, 65.0 * units::MiB, 1000), 3);
}

TEST(SteadyExecutions, AreWholeRotationsOfFiveMilliseconds) {
  EXPECT_EQ(steady_executions(1.0 * ms, 1, 2), 6U);       // 2.5 rotations: three
  EXPECT_EQ(steady_executions(20.0 * ms, 1, 2), 2U);      // one is long enough
  EXPECT_EQ(steady_executions(10.0 * us, 1, 7), 504U);    // 71.4 rotations
  EXPECT_EQ(steady_executions(0.01 * us, 2, 10), 8190U);  // a graph holds no more
  EXPECT_EQ(most_steady_slots(2), 8192U);
  EXPECT_EQ(most_steady_slots(0), 16384U);
}

RC_GTEST_PROP(SteadyExecutions, NeverPassWhatAGraphHolds, ()) {
  const auto launches = *rc::gen::inRange<std::size_t>(1, 8);
  const auto slots = *rc::gen::inRange<std::size_t>(1, most_steady_slots(launches) + 1);
  const Seconds one = *rc::gen::inRange(1, 100000) * 0.1 * us;
  const std::size_t executions = steady_executions(one, launches, slots);
  RC_ASSERT(executions > 0U);
  RC_ASSERT(executions % slots == 0U);
  RC_ASSERT(executions * launches <= 16384U);
}

Conditions conditions(double MHz, double W) {
  Conditions c;
  c.sm_clock = MHz * units::MHz;
  c.power = W * units::W;
  return c;
}

TEST(Settling, LooksEveryThirdOfASecond) {
  Settling settling;
  EXPECT_FALSE(settling.due(0.2 * s));
  EXPECT_TRUE(settling.due(0.31 * s));
  settling.settled(0.31 * s, {});
  EXPECT_FALSE(settling.due(0.5 * s));
  EXPECT_TRUE(settling.due(0.62 * s));
}

TEST(Settling, WantsBothClockAndPowerStillAfterASecond) {
  Settling settling;
  EXPECT_FALSE(settling.settled(0.5 * s, conditions(1980, 700)));
  EXPECT_FALSE(settling.settled(1.0 * s, conditions(1980, 700)));  // too early
  EXPECT_FALSE(settling.settled(1.3 * s, conditions(1980, 690)));  // power moved by 1.4 %
  EXPECT_FALSE(settling.settled(1.6 * s, conditions(1950, 690)));  // the clock by 1.5 %
  EXPECT_TRUE(settling.settled(1.9 * s, conditions(1950, 694)));
}

TEST(Settling, EndsAfterTwoSecondsWhateverTheBoardSays) {
  Settling settling;
  EXPECT_FALSE(settling.settled(1.9 * s, conditions(1950, 694)) && settling.settled(1.95 * s, conditions(1000, 100)));
  EXPECT_TRUE(settling.settled(2.0 * s, conditions(500, 694)));
}

TEST(Settling, WaitsTheLeastTimeForABoardThatSaysNothing) {
  Settling settling;
  EXPECT_FALSE(settling.settled(1.1 * s, {}));
  EXPECT_TRUE(settling.settled(1.2 * s, {}));
}

using Act = EnergyWindow::Act;

TEST(EnergyWindow, OpensAndClosesAtSteps) {
  EnergyWindow window;
  EXPECT_EQ(window.look(0.05 * s, false), Act::wait);
  EXPECT_EQ(window.look(0.10 * s, true), Act::open);
  EXPECT_EQ(window.look(0.20 * s, true), Act::wait);  // too short yet
  EXPECT_EQ(window.look(0.72 * s, false), Act::wait);
  EXPECT_EQ(window.look(0.80 * s, true), Act::close);
}

TEST(EnergyWindow, GivesUpOnAStepThatDoesNotCome) {
  EnergyWindow window;
  EXPECT_EQ(window.look(0.10 * s, true), Act::open);
  EXPECT_EQ(window.look(0.94 * s, false), Act::wait);
  EXPECT_EQ(window.look(0.96 * s, false), Act::close);
}

TEST(EnergyWindow, OfACounterWithoutStepsIsTheTimeAlone) {
  EnergyWindow window;
  EXPECT_EQ(window.look(0.25 * s, false), Act::wait);
  EXPECT_EQ(window.look(0.26 * s, false), Act::open);
  EXPECT_EQ(window.look(0.85 * s, false), Act::wait);
  EXPECT_EQ(window.look(0.87 * s, false), Act::close);
}

}  // namespace
}  // namespace plumbline::stopping_test
