// What failures take of a long training, by hand.
#include "model/failures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "arch/error.hpp"
#include "model/predict.hpp"

namespace plumbline::failures_test {
namespace {

using ::testing::HasSubstr;

/// Nodes of eight GPUs that read 10 GB a second.
Cluster cluster() {
  Cluster c;
  c.name = "toy";
  c.tiers.emplace_back();
  c.tiers.front().gpus = 8;
  c.storage.push_back({"disk", 10.0 * units::GB / units::s});
  return c;
}

Workload on_16_gpus() {
  Workload w;
  w.phase = Phase::train;
  w.batch = 16;
  w.prompt = 512;
  w.parallel.data = 16;
  w.parallel.zero = 1;
  return w;
}

constexpr double kParams = 1235814400;  // of Llama-3.2-1B: two bytes of each weight, twelve of master and states

TEST(Failures, TakeCheckpointsLostWorkAndRestarts) {
  const Failures f = failures_of(load_llm("llama-3.2-1b"), on_16_gpus(), cluster(),
                                 {16.0 * 3600 * units::s, 60.0 * units::s}, std::nullopt);
  const double c = 14 * kParams / 2 / 10e9, m = 3600, t = std::sqrt(2 * c * m);
  const double r = 60 + std::min(14.0, 8 * (2 + 12.0 / 16)) * kParams / 10e9;
  EXPECT_NEAR(f.between.in(units::s), m, 1e-9);
  EXPECT_NEAR(f.checkpoint.in(units::s), c, 1e-3 * c);
  EXPECT_NEAR(f.interval.in(units::s), t, 1e-3 * t);
  EXPECT_NEAR(f.restart.in(units::s), r, 1e-3 * r);
  EXPECT_NEAR(f.trains, 1 - c / t - (t / 2 + r) / m, 1e-4);
}

/// No other interval leaves more, failures further apart leave more, a quicker storage too.
TEST(Failures, AreLeastAtYoungsInterval) {
  const Llm llm = load_llm("llama-3.2-1b");
  const auto at = [&](double hours, double rate) {
    return failures_of(llm, on_16_gpus(), cluster(), {hours * 3600 * units::s, {}}, rate * units::GB / units::s);
  };
  const Failures f = at(16, 10);
  const auto trains = [&](double share) {
    const Seconds every = share * f.interval;
    return 1 - f.checkpoint / every - (0.5 * every + f.restart) / f.between;
  };
  EXPECT_NEAR(trains(1), f.trains, 1e-12);
  EXPECT_LT(trains(0.8), f.trains);
  EXPECT_LT(trains(1.25), f.trains);
  EXPECT_GT(at(32, 10).trains, f.trains);
  EXPECT_GT(at(16, 20).trains, f.trains);
}

TEST(Failures, AreRefusedWhereNothingIsLeftOrNothingIsOnFile) {
  const Llm llm = load_llm("llama-3.2-1b");
  const auto refusal = [&](const Cluster& where, Seconds between) -> std::string {
    try {
      (void)failures_of(llm, on_16_gpus(), where, {between, {}}, std::nullopt);
    } catch (const BadInput& bad) {
      return bad.what();
    }
    return "(accepted)";
  };
  EXPECT_THAT(refusal(cluster(), 60.0 * units::s), HasSubstr("nothing is left to train"));
  Cluster bare = cluster();
  bare.storage.clear();
  EXPECT_THAT(refusal(bare, 1e6 * units::s), HasSubstr("expected --storage"));
}

}  // namespace
}  // namespace plumbline::failures_test
