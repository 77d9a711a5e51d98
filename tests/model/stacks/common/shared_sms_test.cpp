// CTAs that share SMs, dealt out by hand: model/stacks/common/shared_sms.hpp.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <vector>

#include "model/stacks/common/shared_sms.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline {
namespace {

/// A step takes 10 clocks alone, 16 where two are at theirs; a CTA waits 5 before its first.
constexpr SmShare kTwo{.resident = 2, .start_clk = 5, .step_clk = {10, 16}};

double clocks(const std::vector<CtaBatch>& batches, double sms) { return clocks_of(batches, sms, kTwo); }

TEST(SharedSms, AloneAndBesideEachOther) {
  EXPECT_DOUBLE_EQ(clocks({{4, 3}}, 3), 5 + 4 * 10);
  EXPECT_DOUBLE_EQ(clocks({{4, 6}}, 3), 5 + 4 * 16);
  EXPECT_DOUBLE_EQ(clocks({{4, 4}}, 3), 5 + 4 * 16) << "one SM has two";
}

/// Those left over behind a full round spread over SMs that are free, one to each.
TEST(SharedSms, TheRestOfARoundIsAlone) {
  EXPECT_DOUBLE_EQ(clocks({{4, 6 + 3}}, 3), 5 + 4 * 16 + 5 + 4 * 10);
  EXPECT_DOUBLE_EQ(clocks({{4, 6 + 4}}, 3), 2 * (5 + 4 * 16));
}

/// One SM: 8 steps beside 2, then alone: two steps at 16, six at 10. With one of 2 behind, that waits 5 while the long one makes half a
/// step, takes two at 16 beside it, and leaves it three and a half.
TEST(SharedSms, WhoIsLeftAloneGoesFaster) {
  EXPECT_DOUBLE_EQ(clocks({{8, 1}, {2, 1}}, 1), 5 + 2 * 16 + 6 * 10);
  EXPECT_DOUBLE_EQ(clocks({{8, 1}, {2, 2}}, 1), 5 + 2 * 16 + 5 + 2 * 16 + 3.5 * 10);
}

/// Rounds that keep all SMs busy are as long whether they are followed or not.
TEST(SharedSms, ManyRounds) {
  const double round = 5 + 4 * 16;
  EXPECT_NEAR(clocks({{4, 6.0 * 500}}, 3) / (500 * round), 1, 1e-12);
  EXPECT_NEAR(clocks({{4, 6.0 * 500 + 1}}, 3) / (500 * round + 5 + 4 * 10), 1, 1e-12);
}

/// Longest first, on SMs of one to three: where all clocks are shorter alike the launch is too, and where CTAs wait less for their
/// first step it does not end later, but by what they slow their neighbours.
RC_GTEST_PROP(SharedSms, WhatIsShorterDoesNotEndLater, ()) {
  using testing_support::between, testing_support::whole_between;
  constexpr double kNeighbours = 1.02;
  const auto heads = static_cast<double>(whole_between(1, 400)), sms = static_cast<double>(whole_between(4, 300));
  std::vector<CtaBatch> batches;
  for (std::int64_t tile = whole_between(1, 40); tile > 0; --tile)
    batches.push_back({static_cast<double>(tile), heads});
  SmShare slow{.resident = static_cast<std::size_t>(whole_between(1, 3)), .start_clk = between(0, 3e4), .step_clk = {}};
  const double busy = between(500, 5e3), waits = between(100, 3e3);
  for (std::size_t i = 0; i < slow.resident; ++i) {
    const auto held = static_cast<double>(i + 1);
    slow.step_clk[i] = held * busy + waits / held;
  }
  const double factor = between(0.2, 1), before = clocks_of(batches, sms, slow);
  SmShare fast = slow;
  fast.start_clk *= factor;
  RC_ASSERT(clocks_of(batches, sms, fast) <= before * kNeighbours);
  for (double& step : fast.step_clk) step *= factor;
  RC_ASSERT(std::abs(clocks_of(batches, sms, fast) / (before * factor) - 1) < 1e-9);
}

}  // namespace
}  // namespace plumbline
