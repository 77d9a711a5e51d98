// The lines at the top of model/predict.hpp and model/machine.hpp are programs: they compile, and this test holds the
// texts to each other.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "model/predict.hpp"
#include "tests/support/places.hpp"

namespace plumbline::predict_example_test {
namespace {

TEST(PredictHeader, ItsExampleCompiles) {
  Machine machine = make_machine(load_gpu("h200_sxm"), MachineOptions{});
  Workload workload;
  workload.phase = Phase::decode;
  Predictor predictor;
  StepPrediction step = predictor.predict(load_llm("llama-3.1-8b"), workload, machine, RunOptions{});
  EXPECT_GT(step.latency, Seconds{});
}

TEST(MachineHeader, ItsExampleCompiles) {
  Machine h200 = make_machine(load_gpu("h200_sxm"), MachineOptions{});
  GpuNumbers numbers = h200.numbers();
  numbers.memory.bandwidth = 6.0 * units::TB_per_s;
  Machine faster = h200.with(numbers);
  EXPECT_EQ(faster.numbers().memory.bandwidth, 6.0 * units::TB_per_s);
}

/// The examples in the comments, line by line, stand in this file too.
TEST(PredictHeader, ShowsWhatIsCompiledHere) {
  std::ifstream here(testing_support::tests_folder() + "/model/predict_example_test.cpp");
  const std::string mine{std::istreambuf_iterator<char>(here), {}};
  for (const char* name : {"predict.hpp", "machine.hpp"}) {
    std::ifstream header(testing_support::tests_folder() + "/../model/" + name);
    int shown = 0;
    for (std::string line; std::getline(header, line) && line.rfind("//", 0) == 0;) {
      if (line.rfind("//   ", 0) != 0) continue;
      ++shown;
      const std::string code = line.substr(5, line.find("  ", 5) - 5);  // less a remark behind it
      EXPECT_NE(mine.find("\n  " + code + "\n"), std::string::npos) << name << ": " << line;
    }
    EXPECT_GE(shown, 4) << name;
  }
}

}  // namespace
}  // namespace plumbline::predict_example_test
