// Hosts that issue training are quicker or slower than the one of the stack's file: what that does to an iteration's band.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "arch/error.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/predictor/host_time.hpp"
#include "model/stacks/stack.hpp"

namespace plumbline::training_hosts_test {
namespace {

using ::testing::HasSubstr;

Machine on(const std::string& host = "") {
  MachineOptions options{"hf-sdpa"};
  options.stack.host = host;
  return machines().get({"h200_sxm", options});
}

StepPrediction iteration(const Machine& machine, std::int64_t batch, std::int64_t tokens) {
  Workload asked;
  asked.phase = Phase::train;
  asked.batch = batch;
  asked.prompt = tokens;
  asked.fusion = machine.stack().fusion;
  Predictor predictor;
  return predictor.predict(load_llm("llama-3.2-1b"), asked, machine, RunOptions{Runtime::eager});
}

double half_width(const StepPrediction& step) { return std::log(step.high / step.low) / 2; }

TEST(TrainingHosts, ShowInTheBandWhereTheHostIsTheLimit) {
  const Machine machine = on();
  const StepPrediction waits = iteration(machine, 1, 256), works = iteration(machine, 8, 4096);
  ASSERT_TRUE(waits.waits_for_host);
  EXPECT_GE(waits.high / waits.latency, 0.9 * machine.stack().host.training_hosts.slow);
  EXPECT_LT(half_width(works), 0.6 * half_width(waits));
}

TEST(TrainingHosts, OneThatWasMeasuredVariesLess) {
  const StepPrediction usual = iteration(on(), 1, 256), measured = iteration(on("31.9us"), 1, 256);
  EXPECT_NEAR(measured.latency / usual.latency, 1, 1e-3);
  EXPECT_LT(half_width(measured), half_width(usual));
}

TEST(TrainingHosts, LatencyGoesWithTheHostAndTheGpu) {
  const Machine machine = on();
  for (const std::int64_t tokens : {256, 4096}) {
    const StepPrediction step = iteration(machine, 1, tokens);
    EXPECT_NEAR(latency_with(step, machine, 1, 1) / step.latency, 1, 1e-9);
    EXPECT_NEAR(latency_with(step, machine, 2, 2) / step.latency, 2, 1e-9) << "all takes twice as long";
    Seconds before;
    for (const double host : {0.1, 0.5, 1.0, 2.0, 4.0}) {
      const Seconds now = latency_with(step, machine, host, 1);
      EXPECT_GE(now, before) << host;
      before = now;
    }
  }
}

TEST(TrainingHosts, AreFactorsAroundOne) {
  const std::string before =
      R"({"schema": 1, "name": "mine", "title": "t", "prefill_appends": true, "fusion": "typical",
      "providers": [{"provider": "generic"}], "runtime": "eager", "host": {"each_launch": "30 us",
      "each_training_launch": "30 us", "source": "s", "training_hosts": )";
  const auto complaint = [&](const std::string& hosts) -> std::string {
    try {
      (void)parse_stack(before + hosts + "}}", "mine.json");
    } catch (const BadInput& bad) {
      return bad.what();
    }
    return "";
  };
  EXPECT_EQ(complaint(R"({"quick": 0.8, "slow": 1.5, "apart": 0.1})"), "");
  EXPECT_THAT(complaint(R"({"quick": 1.1, "slow": 1.5, "apart": 0.1})"), HasSubstr("at most 1"));
  EXPECT_THAT(complaint(R"({"quick": 0.8, "slow": 0.9, "apart": 0.1})"), HasSubstr("from 1 to 100"));
  EXPECT_THAT(complaint(R"({"quick": 0.8, "slow": 1.5, "apart": 2})"), HasSubstr("from 0 to 1"));
  EXPECT_THAT(complaint(R"({"quick": 0.8, "slow": 1.5, "apart": 0, "fast": 1})"), HasSubstr("fast"));
}

}  // namespace
}  // namespace plumbline::training_hosts_test
