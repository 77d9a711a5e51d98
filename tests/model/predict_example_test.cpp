// The lines at the top of model/predict.hpp are a program: they compile, and this test holds both texts to each other.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "model/predict.hpp"

namespace plumbline {
namespace {

TEST(PredictHeader, ItsExampleCompiles) {
  Machine machine = make_machine(load_gpu("h200_sxm"), MachineOptions{});
  Workload workload;
  workload.phase = Phase::decode;
  Predictor predictor;
  StepPrediction step = predictor.predict(load_llm("llama-3.1-8b"), workload, machine, RunOptions{});
  EXPECT_GT(step.latency, Seconds{});
}

/// The example in the comment, line by line, stands in this file too.
TEST(PredictHeader, ShowsWhatIsCompiledHere) {
  std::ifstream header(PLUMBLINE_TESTS "/../model/predict.hpp"),
      here(PLUMBLINE_TESTS "/model/predict_example_test.cpp");
  const std::string mine{std::istreambuf_iterator<char>(here), {}};
  int shown = 0;
  for (std::string line; std::getline(header, line) && line.rfind("//", 0) == 0;) {
    if (line.rfind("//   ", 0) != 0) continue;
    ++shown;
    EXPECT_NE(mine.find("\n  " + line.substr(5) + "\n"), std::string::npos) << line;
  }
  EXPECT_GE(shown, 4);
}

}  // namespace
}  // namespace plumbline
