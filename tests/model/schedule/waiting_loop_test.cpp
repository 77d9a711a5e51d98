// Loops of an update in which the host waits for the GPU, by hand.
#include "model/predictor/waiting_loop.hpp"

#include <gtest/gtest.h>

namespace plumbline::waiting_loop_test {
namespace {

double time_of(const WaitingLoop& loop, double times_host = 1, double times_gpu = 1) {
  return loop.time(times_host, times_gpu).in(units::us);
}

/// Behind each launch the host waits: the two take turns.
TEST(WaitingLoop, ASynchronizationBehindEachLaunchAddsHostAndGpu) {
  const WaitingLoop loop{{{30 * units::us, 50 * units::us, true}}, 10};
  EXPECT_NEAR(time_of(loop), 10 * 80, 1e-9);
  EXPECT_NEAR(time_of(loop, 2, 1), 10 * 110, 1e-9);
  EXPECT_NEAR(time_of(loop, 1, 0.5), 10 * 55, 1e-9);
  EXPECT_NEAR(loop.gpu().in(units::us), 500, 1e-9);
}

/// What is behind the wait (100 us) runs while the host issues the next turn's two launches (20 each), which run behind
/// it (5 each); then the host issues the third one (20).
TEST(WaitingLoop, WhatIsBehindTheWaitRunsBesideTheNextTurnsCalls) {
  const WaitingLoop loop{
      {{20 * units::us, 5 * units::us}, {20 * units::us, 5 * units::us, true}, {20 * units::us, 100 * units::us}}, 3};
  EXPECT_NEAR(time_of(loop), 3 * (100 + 5 + 5 + 20), 1e-9);
}

/// A host that is never waited for: whichever is longer.
TEST(WaitingLoop, WithoutAWaitTheLongerOfTheTwo) {
  const WaitingLoop host{{{20 * units::us, 5 * units::us}, {20 * units::us, 5 * units::us}}, 4};
  EXPECT_NEAR(time_of(host), 4 * 40, 1e-9);
  EXPECT_NEAR(time_of(host, 0.1), 4 * 10, 1e-9);
}

}  // namespace
}  // namespace plumbline::waiting_loop_test
