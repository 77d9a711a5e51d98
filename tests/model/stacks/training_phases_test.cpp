// What the phases of an iteration of training are made of on the host, counted: on a host that takes a second for one thing
// and for nothing else an iteration takes as many seconds as it has of it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <regex>
#include <string>

#include "arch/files.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "tests/support/eager_training.hpp"

namespace plumbline::training_phases_test {
namespace {

using testing_support::on_two;
using testing_support::training;

/// hf-sdpa's file with such a host.
std::string file_that_counts(const std::string& term) {
  static const char* const kTerms[] = {
      "forward_call",  "further_launch", "forward_layer", "experts_layer",       "backward_call", "backward_layer",
      "kept_layer",    "again_layer",    "gathered_unit", "gathered_again_unit", "summed_unit",   "summed_tensor",
      "walked_tensor", "listed_tensor",  "walked_shard",  "listed_shard",        "forward_begin", "summed_bucket"};
  std::string phases = R"("training": {"narrow_launch": "1 s")";
  for (const std::string each : kTerms) phases += ", \"" + each + "\": " + (each == term ? "1" : "0");
  phases += R"(, "source": "none"})";
  const std::string usual = read_text_file(data_folder() + "/stacks/hf-sdpa.json");
  const std::string text =
      std::regex_replace(std::regex_replace(usual, std::regex("\"training\": \\{[^}]*\\}"), phases),
                         std::regex("\"apart\": [0-9.]+"), "\"apart\": 0");
  const std::string path = ::testing::TempDir() + "plumbline_counts_" + term + ".json";
  std::ofstream(path) << text;
  return path;
}

double counted(const std::string& term, const Workload& w, const std::string& model = "llama-3.2-1b") {
  MachineOptions options{file_that_counts(term)};
  options.cluster = w.parallel.data > 1 ? "dgx_h200" : "";
  const Machine machine = machines().get({"h200_sxm", options});
  const StepPrediction step = predict(load_llm(model), w, machine, RunOptions{Runtime::eager});
  std::remove(options.stack.name.c_str());
  return std::round(step.latency.in(units::s));
}

TEST(TrainingPhases, LayersAreCountedInEachPass) {
  Workload w = training(1, 64);
  EXPECT_EQ(counted("forward_layer", w), 16);
  EXPECT_EQ(counted("backward_layer", w), 16);
  EXPECT_EQ(counted("forward_begin", w), 1);
  EXPECT_EQ(counted("kept_layer", w), 0);
  EXPECT_EQ(counted("experts_layer", w), 0);
  const double forward = counted("forward_call", w), backward = counted("backward_call", w);
  EXPECT_GT(backward, 1.5 * forward);
  w.training.recompute = Recompute::full;
  EXPECT_EQ(counted("forward_layer", w), 32) << "a layer that is computed again is a forward pass";
  EXPECT_EQ(counted("forward_begin", w), 1);
  EXPECT_EQ(counted("kept_layer", w), 16);
  EXPECT_EQ(counted("again_layer", w), 16);
  EXPECT_GT(counted("forward_call", w), 1.8 * forward);
  EXPECT_EQ(counted("backward_call", w), backward);
}

/// What replicas exchange for layers are no layers.
TEST(TrainingPhases, HooksAreCountedWhereReplicasAre) {
  EXPECT_EQ(counted("forward_layer", on_two(1, 64, 0)), 16);
  EXPECT_EQ(counted("summed_tensor", on_two(1, 64, 0)), 146);
  EXPECT_EQ(counted("summed_bucket", on_two(1, 64, 0)), 49);
  EXPECT_EQ(counted("gathered_unit", on_two(1, 64, 0)), 0);
  const Workload sharded = on_two(1, 64, 3), kept = on_two(1, 64, 2);
  EXPECT_EQ(counted("forward_layer", sharded), 16);
  EXPECT_EQ(counted("backward_layer", sharded), 16);
  for (const char* unit : {"gathered_unit", "gathered_again_unit", "summed_unit"}) {
    EXPECT_EQ(counted(unit, sharded), 17) << unit;
  }
  EXPECT_EQ(counted("gathered_again_unit", kept), 0);
  Workload parts = on_two(2, 64, 3);
  parts.training.micro_batch = 1;
  EXPECT_EQ(counted("forward_begin", parts), 2);
  EXPECT_EQ(counted("gathered_unit", parts), 34);
  EXPECT_EQ(counted("summed_unit", parts), 17);
  EXPECT_EQ(counted("forward_layer", parts), 32);
}

/// foreach goes through eight lists, the fused update through one, clipping through two.
TEST(TrainingPhases, UpdatesAreCountedByTheirLists) {
  Workload w = training(1, 64);
  w.training.optimizer = Optimizer::adamw;
  EXPECT_EQ(counted("walked_tensor", w), 146);
  EXPECT_EQ(counted("listed_tensor", w), 8 * 146);
  w.training.optimizer = Optimizer::adamw_fused;
  w.training.clipping = Clipping::norm;
  EXPECT_EQ(counted("walked_tensor", w), 2 * 146);
  EXPECT_EQ(counted("listed_tensor", w), 3 * 146);
}

}  // namespace
}  // namespace plumbline::training_phases_test
