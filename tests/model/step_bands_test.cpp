// Bands of whole steps: which one a step takes, how it is said, and that a step's band is never narrower.
#include "model/bands/step_bands.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/predict.hpp"
#include "model/report/remarks.hpp"
#include "model/stacks/stack.hpp"

namespace plumbline::step_bands_test {
namespace {

using ::testing::HasSubstr;

StepBands two_stacks() {
  StepBands bands;
  bands.set("a", kDenseSteps, {-0.1, 0.2, 12, 0.05});
  bands.set("b", kDenseSteps, {-0.3, 0.1, 5, 0.0});
  bands.set("b", kExpertSteps, {-0.7, -0.2, 7, -0.5});
  return bands;
}

TEST(StepBands, AStackTakesItsOwnAndOthersTheWidestToEitherSide) {
  const StepBands bands = two_stacks();
  const WholeStepBand own = bands.find("a", kDenseSteps, true);
  EXPECT_TRUE(own.recorded);
  EXPECT_EQ(own.band->rows, 12);
  EXPECT_EQ(own.stack, "a");
  for (const WholeStepBand& other : {bands.find("c", kDenseSteps, true), bands.find("a", kDenseSteps, false)}) {
    EXPECT_FALSE(other.recorded);
    EXPECT_EQ(other.band->low, -0.3);
    EXPECT_EQ(other.band->high, 0.2);
    EXPECT_EQ(other.band->rows, 17);
    EXPECT_EQ(other.stack, "a, b");
  }
  EXPECT_EQ(bands.find("a", kExpertSteps, true).stack, "b") << "dense steps say nothing of experts";
  EXPECT_EQ(StepBands().find("a", kDenseSteps, true).band, nullptr);
}

TEST(StepBands, AStackThatStandsApartWidensNoOthersBand) {
  StepBands bands = two_stacks();
  bands.set("eager", kDenseSteps, {-2, 2, 40, 0});
  bands.set("eager", kWaitingSteps, {-1, 1, 40, 0});
  EXPECT_EQ(bands.find("c", kDenseSteps, true).band->high, 2);
  bands.stand_apart("eager");
  EXPECT_EQ(bands.find("c", kDenseSteps, true).band->high, 0.2);
  EXPECT_EQ(bands.find("c", kWaitingSteps, true).band->high, 1) << "a host is a host, whoever launches";
  EXPECT_EQ(bands.find("eager", kDenseSteps, true).band->high, 2);
  EXPECT_EQ(bands.find("eager", kDenseSteps, false).band->high, 0.2) << "run as nobody recorded it";
  EXPECT_EQ(bands.find("eager", kWaitingSteps, false).band->high, 1);
  const std::string text = to_json(bands);
  EXPECT_EQ(to_json(parse_step_bands(text, "bands.json")), text);
  EXPECT_TRUE(parse_step_bands(text, "bands.json").stands_apart("eager"));
}

TEST(StepBands, ReadBackAsTheyWereWritten) {
  const std::string text = to_json(two_stacks());
  EXPECT_EQ(to_json(parse_step_bands(text, "bands.json")), text);
  EXPECT_EQ(parse_step_bands(text, "bands.json").all().size(), 3U);
}

TEST(StepBands, RefuseWhatIsNoBand) {
  const auto refused = [](const std::string& stacks) {
    try {
      parse_step_bands(R"({"schema": "plumbline.steps.bands.v1", "stacks": )" + stacks + "}", "bands.json");
    } catch (const BadInput& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused(R"({"a": {"sparse": {}}})"), HasSubstr("sparse"));
  EXPECT_THAT(refused(R"({"a": {"dense": {"low": 0.1, "middle": 0, "high": 1, "rows": 3}}})"),
              HasSubstr("low <= middle"));
  EXPECT_THAT(refused(R"({"a": {"dense": {"low": 0, "middle": 0, "high": 1}}})"), HasSubstr("rows"));
  EXPECT_THROW(parse_step_bands(R"({"schema": "x", "stacks": {}})", "bands.json"), BadInput);
}

StepPrediction decode(const Machine& machine, const RunOptions& run = {}, const char* model = "llama-3.1-8b") {
  return predict(load_llm(model), Workload{}, machine, run);
}

/// The step's band reaches as far as whole steps of its stack were off, to either side.
TEST(WholeSteps, BandOfAStepIsAtLeastAsWideAsTheirResiduals) {
  const Machine machine = make_machine(load_gpu("h200_sxm"), MachineOptions{});
  const StepPrediction step = decode(machine);
  ASSERT_NE(step.whole_steps.band, nullptr);
  EXPECT_TRUE(step.whole_steps.recorded);
  EXPECT_EQ(step.whole_steps.stack, "trt-llm");
  EXPECT_LE(step.low, step.latency * std::exp(step.whole_steps.band->low) * (1 + 1e-12));
  EXPECT_GE(step.high, step.latency * std::exp(step.whole_steps.band->high) * (1 - 1e-12));
  EXPECT_THAT(band_remarks(step, machine).at(0), HasSubstr("steps of trt-llm (dense models)"));
}

/// Where operators were traced with the steps, enough of these are a band by themselves: on the card alone.
TEST(WholeSteps, BandOfATracedStepIsThatOfItsResiduals) {
  MachineOptions traced;
  traced.stack = "hf-static";
  const Machine machine = make_machine(load_gpu("h200_sxm"), traced);
  Workload asked;
  asked.fusion = machine.stack().fusion;
  const StepPrediction step = predict(load_llm("llama-3.1-8b"), asked, machine, {machine.stack().runtime});
  ASSERT_TRUE(step.whole_steps.recorded);
  ASSERT_GE(step.whole_steps.band->rows, 10);
  EXPECT_NEAR(step.high / step.latency, std::exp(step.whole_steps.band->high), 1e-12);
  EXPECT_NEAR(step.low / step.latency, std::exp(step.whole_steps.band->low), 1e-12);
  const Machine other = make_machine(load_gpu("b200_sxm"), traced);
  const StepPrediction elsewhere = predict(load_llm("llama-3.1-8b"), asked, other, {other.stack().runtime});
  EXPECT_GT(elsewhere.high / elsewhere.latency, 1.02 * std::exp(step.whole_steps.band->high));
}

/// A stack that nobody recorded, and one that is launched otherwise than it was recorded, say so.
TEST(WholeSteps, AStackWithoutRecordedStepsSaysSo) {
  MachineOptions vllm;
  vllm.stack = "vllm";
  const Machine other = make_machine(load_gpu("h200_sxm"), vllm);
  const StepPrediction unrecorded = decode(other);
  EXPECT_FALSE(unrecorded.whole_steps.recorded);
  EXPECT_THAT(band_remarks(unrecorded, other).at(0),
              HasSubstr("too few whole steps of stack vllm, or none, were recorded"));
  EXPECT_THAT(band_remarks(unrecorded, other).at(0), HasSubstr("trt-llm"));
  const Machine usual = make_machine(load_gpu("h200_sxm"), MachineOptions{});
  EXPECT_FALSE(decode(usual, {Runtime::eager}).whole_steps.recorded);
  EXPECT_EQ(decode(usual, {}, "mixtral-8x7b").whole_steps.kind, kExpertSteps);
}

/// Recorded steps of a shipped stack say nothing of a file that was made from its own and kept its name.
TEST(WholeSteps, AChangedFileIsNotTheStackThatWasRecorded) {
  const std::string shipped = read_text_file(data_folder() + "/stacks/trt-llm.json");
  std::string changed = shipped;
  changed.replace(changed.find("\"typical\""), 9, "\"max\"");
  const auto recorded = [](const std::string& text, const char* name) {
    const std::string path = ::testing::TempDir() + name;
    std::ofstream(path) << text;
    MachineOptions options;
    options.stack = path;
    const Machine machine = make_machine(load_gpu("h200_sxm"), options);
    std::remove(path.c_str());
    Workload asked;
    asked.fusion = machine.stack().fusion;
    return predict(load_llm("llama-3.1-8b"), asked, machine, {}).whole_steps.recorded;
  };
  EXPECT_TRUE(recorded(shipped, "plumbline_copied_stack.json"));
  EXPECT_FALSE(recorded(changed, "plumbline_changed_stack.json"));
}

TEST(WholeSteps, TheRooflineFloorHasNone) {
  MachineOptions ideal;
  ideal.stack = "ideal";
  const Machine machine = make_machine(load_gpu("h200_sxm"), ideal);
  const StepPrediction step = decode(machine);
  EXPECT_EQ(step.low, step.high);
  EXPECT_TRUE(band_remarks(step, machine).empty());
}

/// Steps whose operators lean on kernels of another card or number format had bands that began at the prediction itself.
TEST(WholeSteps, BandsReachBelowThePredictionWhereKernelsWereNeverMeasured) {
  MachineOptions steady;
  steady.clock = ClockMode::steady;
  for (const char* gpu : {"h100_sxm", "h200_sxm", "b200_sxm"}) {
    for (const char* model : {"deepseek-v3", "gpt-oss-120b"}) {
      const StepPrediction step = decode(make_machine(load_gpu(gpu), steady), {}, model);
      EXPECT_LT(step.low, 0.99 * step.latency) << gpu << " " << model;
      EXPECT_GT(step.high, 1.01 * step.latency) << gpu << " " << model;
    }
  }
}

}  // namespace
}  // namespace plumbline::step_bands_test
