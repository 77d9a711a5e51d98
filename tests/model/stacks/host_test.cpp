// The host of one machine (--host): its file, what it changes of a step, and what is refused.
#include "model/stacks/host.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "arch/error.hpp"
#include "model/bands/step_bands.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
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
    double launches = 0;
    for (const NodePrediction& n : step.nodes) launches += static_cast<double>(n.node->count) * n.op.launch_count;
    const Seconds layer = host.each_layer + (model[0] == 'm' ? host.each_experts_layer : Seconds{});
    ASSERT_GT(host.each_experts_layer, Seconds{});
    EXPECT_NEAR(step.latency / (launches * host.each_launch + 32 * layer), 1, 1e-9) << model;
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
