// Megatron-LM of 2021: launches of its layers held to those kernels' times on an H100 (data/measurements/h100/megatron_2021),
// off which their counts of instructions were read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "arch/files.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/csv.hpp"

namespace plumbline::megatron_training_test {
namespace {

/// A micro-batch of a stage's layers, one replica.
Workload micro_batch(std::int64_t sequences, std::int64_t tensor) {
  Workload w;
  w.phase = Phase::train;
  w.batch = sequences;
  w.prompt = 2048;
  w.parallel.tensor = tensor;
  w.training.written_out = true;
  w.training.recompute = Recompute::full;
  return w;
}

std::map<std::string, double> microseconds(const std::string& model, const Workload& workload) {
  const Machine machine = machines().get({"h100_sxm", MachineOptions{"megatron-2021", ClockMode::burst}});
  const StepPrediction step = predict(load_llm(model), workload, machine, RunOptions{});
  std::map<std::string, double> found;
  for (const NodePrediction& n : step.nodes) found[n.node->name] = n.op.time.in(units::us);
  return found;
}

TEST(MegatronTraining, LaunchesTakeWhatTheyTookOnAnH100) {
  const std::string path = data_folder() + "/measurements/h100/megatron_2021/launches.csv";
  const std::string text = read_text_file(path);
  CsvReader reader(text, path);
  std::map<std::string, std::map<std::string, double>> steps;
  std::vector<double> errors;
  reader.next();
  while (reader.next()) {
    const std::string model(reader.fields()[0]), launch(reader.fields()[3]);
    auto& step = steps[model];
    if (step.empty()) {
      step = microseconds(
          model, micro_batch(std::stoll(std::string(reader.fields()[2])), std::stoll(std::string(reader.fields()[1]))));
    }
    ASSERT_TRUE(step.contains(launch)) << model << " " << launch;
    const double error = std::abs(std::log(step.at(launch) / std::stod(std::string(reader.fields()[4]))));
    EXPECT_LE(error, 0.2) << model << " " << launch;
    errors.push_back(error);
  }
  ASSERT_GE(errors.size(), 30U);
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  EXPECT_LE(*middle, 0.05);
}

/// A rule that names its nodes holds for those that are computed again: the bias of queries, keys and values is added twice.
TEST(MegatronTraining, WhatIsComputedAgainRunsTheSameLaunches) {
  const auto step = microseconds("megatron-gpt-1.7b", micro_batch(1, 1));
  ASSERT_TRUE(step.contains("qkv_proj.bias"));
  EXPECT_EQ(step.at("qkv_proj.bias"), step.at("qkv_proj.recompute.bias"));
}

/// 16 calls of 34.9 us behind each of a pipeline's hand-overs, both ways; a stack that does not synchronize waits for none.
TEST(MegatronTraining, TheGpuWaitsForItsHostBehindAHandOver) {
  const auto gaps = [](const char* stack) {
    Workload w = micro_batch(8, 1);
    w.parallel.pipeline = 2;
    w.training.micro_batch = 1;
    const Machine machine = machines().get({"h100_sxm", MachineOptions{stack, ClockMode::burst}});
    const StepPrediction step = predict(load_llm("megatron-gpt-1.7b"), w, machine, RunOptions{});
    std::vector<Seconds> found;
    for (const NodePrediction& n : step.nodes) {
      if (std::holds_alternative<Transfer>(n.node->op)) found.push_back(n.gap);
    }
    return found;
  };
  const auto waiting = gaps("megatron-2021"), plain = gaps("megatron");
  ASSERT_EQ(waiting.size(), plain.size());
  ASSERT_GE(waiting.size(), 1U);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR((waiting[i] - plain[i]).in(units::us), 16 * 34.9, 0.01) << i;
  }
}

}  // namespace
}  // namespace plumbline::megatron_training_test
