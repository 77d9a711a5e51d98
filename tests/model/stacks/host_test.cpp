// The host of one machine (--host): its file, what it changes of a step, and what is refused.
#include "model/stacks/host.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "arch/error.hpp"
#include "model/bands/step_bands.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/predictor/host_time.hpp"
#include "model/report/remarks.hpp"

namespace plumbline::host_test {
namespace {

using ::testing::HasSubstr;

MachineOptions on(const std::string& host, const char* stack = "hf-sdpa") {
  MachineOptions options{stack};
  options.stack.host = host;
  return options;
}

/// A file of that text, for as long as the object lives.
class HostFile {
 public:
  explicit HostFile(const std::string& text) : path_(::testing::TempDir() + "plumbline_host_test.json") {
    std::ofstream(path_) << text;
  }
  ~HostFile() { std::remove(path_.c_str()); }
  HostFile(const HostFile&) = delete;
  HostFile& operator=(const HostFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

StepPrediction small_step(const Machine& machine, const char* model = "llama-3.1-8b") {
  Workload asked;
  asked.phase = Phase::decode;
  asked.batch = 1;
  asked.context = 16;
  asked.fusion = machine.stack().fusion;
  Predictor predictor;
  return predictor.predict(load_llm(model), asked, machine, RunOptions{Runtime::eager});
}

TEST(Host, AMeasuredOneTakesThePlaceOfTheStacks) {
  const Machine usual = machines().get({"h200_sxm", on("")});
  const Machine slow = machines().get({"h200_sxm", on("70us")});
  const StepPrediction before = small_step(usual), after = small_step(slow);
  EXPECT_NEAR(after.latency / before.latency, 70 * units::us / usual.stack().host.narrow_launch, 1e-9);
  EXPECT_TRUE(after.host_measured);
  EXPECT_EQ(step_kind(after), kMeasuredHostSteps);
  EXPECT_EQ(step_kind(before), kWaitingSteps);
  EXPECT_THAT(band_remarks(after, slow).at(0), HasSubstr("70.0 us a launch of the narrow step"));
}

/// Times of serving are of one host, those of training in launches of the narrow model on the host that is asked for.
TEST(Host, TimesOfTrainingGoWithTheHost) {
  Stack stack = machines().stack("hf-sdpa");
  stack.host.narrow_launch = 20 * units::us;
  stack.host.training.narrow_launch = 40 * units::us;
  const Stack slow = on_host(stack, host_of_time("60us"));
  EXPECT_DOUBLE_EQ(slow.host.each_launch / stack.host.each_launch, 3);
  EXPECT_EQ(slow.host.training.narrow_launch, 60 * units::us);
  EXPECT_EQ(slow.host.training.forward_call, stack.host.training.forward_call);
  stack.host.training = {};
  EXPECT_EQ(on_host(stack, host_of_time("60us")).host.training.narrow_launch, Seconds{}) << "a file without phases";
}

TEST(Host, AFileSaysTheSame) {
  const HostFile file(R"({"schema": 1, "name": "node-7", "narrow_launch": "12 us", "source": "measured"})");
  const Machine machine = machines().get({"h200_sxm", on(file.path())});
  const StepPrediction step = small_step(machine);
  EXPECT_THAT(band_remarks(step, machine).at(0), HasSubstr("node-7: measured"));
  EXPECT_EQ(step.latency, small_step(machines().get({"h200_sxm", on("12us")})).latency);
}

/// By hand: launches, layers and layers with experts, each for what the stack's file has for it.
TEST(Host, LayersTakeTheirTimeBesideTheirLaunches) {
  for (const char* model : {"llama-3.1-8b", "mixtral-8x7b"}) {
    const Machine machine = machines().get({"h200_sxm", on("40us")});
    const StepPrediction step = small_step(machine, model);
    const HostTime& host = machine.stack().host;
    double calls = 0, further = 0;
    for (const NodePrediction& n : step.nodes) {
      calls += static_cast<double>(n.node->count) * host_calls(n);
      further += static_cast<double>(n.node->count) * (n.op.launch_count - host_calls(n));
    }
    const Seconds layer = host.each_layer + (model[0] == 'm' ? host.each_experts_layer : Seconds{});
    ASSERT_GT(host.each_experts_layer, Seconds{});
    EXPECT_NEAR(step.latency / (calls * host.each_launch + further * host.each_further_launch + 32 * layer), 1, 1e-9)
        << model;
  }
}

/// A stack that nobody measured launched one by one takes another's time a launch, and its band is wider than any recorded one.
TEST(Host, ABorrowedOneSaysSoAndWidensTheBand) {
  for (const auto& [name, lender] :
       {std::pair("vllm", "vllm-2023"), {"trt-llm", "trt-llm-2023"}, {"own", "hf-static"}}) {
    const Machine machine = machines().get({"h200_sxm", on("", name)});
    const HostTime& host = machine.stack().host;
    EXPECT_EQ(host.borrowed_from, lender);
    EXPECT_EQ(host.each_launch, machines().stack(lender).host.each_launch);
    EXPECT_EQ(host.each_layer, machines().stack(lender).host.each_layer);
    EXPECT_EQ(host.each_prompt, Seconds{}) << "what passes between steps is the lender's own";
    const StepPrediction step = small_step(machine, "llama-3.2-1b");
    ASSERT_TRUE(step.waits_for_host);
    EXPECT_EQ(step_kind(step), kWaitingSteps);
    EXPECT_GE(step.high / step.latency, host.within);
    EXPECT_LE(step.low / step.latency, std::max(1 / host.within, 1 / step.host_ratio))
        << "a quick host leaves the GPU's";
    EXPECT_THAT(band_remarks(step, machine).at(0), HasSubstr(lender));
    EXPECT_THAT(band_remarks(step, machine).at(0), HasSubstr("never_measured"));
  }
}

/// Where the GPU takes a little longer than a host that nobody measured, the host may still be what is waited for.
TEST(Host, ABorrowedOneMayBeWaitedForAfterAll) {
  const Machine machine = machines().get({"h200_sxm", on("", "trt-llm")});
  Workload asked;
  asked.batch = 16;
  asked.context = 3072;
  Predictor predictor;
  const StepPrediction step = predictor.predict(load_llm("llama-3.1-8b"), asked, machine, RunOptions{Runtime::eager});
  const StepPrediction queued =
      predictor.predict(load_llm("llama-3.1-8b"), asked, machine, RunOptions{Runtime::stream});
  ASSERT_FALSE(step.waits_for_host);
  ASSERT_GT(step.host_ratio * machine.stack().host.within, 1);
  EXPECT_EQ(step.latency, queued.latency);
  EXPECT_GE(step.high, step.host_ratio * machine.stack().host.within * step.latency);
}

/// Every shipped stack can be launched one by one but the floor, which launches nothing.
TEST(Host, EachShippedStackSaysWhatALaunchTakes) {
  for (const std::string& name : stack_names()) {
    const HostTime& host = machines().stack(name).host;
    EXPECT_EQ(host.each_launch > Seconds{}, name != "ideal") << name;
    EXPECT_TRUE(host.borrowed_from.empty() || host.within > 1) << name;
  }
}

TEST(Host, AStackThatSaysNothingOfItIsRefused) {
  const Stack stack =
      parse_stack(R"({"schema": 1, "name": "mine", "title": "t", "prefill_appends": true, "fusion": "typical",
      "providers": [{"provider": "cublas"}, {"provider": "trtllm"}, {"provider": "generic"}], "runtime": "stream"})",
                  "mine.json");
  const Machine usual = machines().get({"h200_sxm", on("", "trt-llm")});
  const Machine machine = assemble_machine(load_gpu("h200_sxm"), usual.calibration(), stack, {});
  Predictor predictor;
  EXPECT_GT(predictor.predict(load_llm("gpt2"), Workload{}, machine, RunOptions{Runtime::stream}).latency, Seconds{});
  try {
    (void)predictor.predict(load_llm("gpt2"), Workload{}, machine, RunOptions{Runtime::eager});
    FAIL();
  } catch (const BadInput& bad) {
    EXPECT_THAT(bad.what(), HasSubstr("--runtime eager: the file of stack mine"));
    EXPECT_THAT(bad.what(), HasSubstr("or --runtime stream"));
  }
}

TEST(Host, WhatIsNoHostIsRefused) {
  for (const char* text : {"0us", "-3us", "fast", "20 GB"}) EXPECT_THROW(host_of_time(text), BadInput) << text;
  EXPECT_THROW(on_host(machines().stack("trt-llm"), host_of_time("20us")), BadInput) << "nobody measured one beside it";
  for (const char* text : {R"({"schema": 1, "name": "n", "narrow_launch": "0 us", "source": "s"})",
                           R"({"schema": 1, "name": "n", "each_launch": "1 us", "source": "s"})",
                           R"({"schema": 2, "name": "n", "narrow_launch": "1 us", "source": "s"})"}) {
    EXPECT_THROW(parse_host(text, "host.json"), BadInput) << text;
  }
  EXPECT_THROW(machines().get({"h200_sxm", on("./no_such_file.json")}), BadInput);
}

}  // namespace
}  // namespace plumbline::host_test
