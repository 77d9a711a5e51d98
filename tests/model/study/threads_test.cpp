// The functions of study.hpp called by several threads at once, as a service would: each answer is that of a call alone.
// Built with -fsanitize=thread the same test looks for races.
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "model/study.hpp"

namespace plumbline::study_threads_test {
namespace {

Study step_study(const std::string& gpu) {
  Study study;
  study.base = {{"model", "llama-3.2-1b"}, {"gpu", gpu}, {"phase", "decode"}, {"batch", "8"}, {"context", "1024"}};
  return study;
}

std::string swept(const std::string& gpu) {
  Study study = step_study(gpu);
  study.axes = {axis("set.memory.bandwidth", "2:4:1TB/s"), axis("tp", "1,2,4")};
  std::string lines;
  SweepOptions options;
  options.threads = 2;
  options.block = 2;
  sweep(study, options, [&](std::string_view text) { lines += text; });
  return lines;
}

std::string best(const std::string& gpu) {
  Study study = step_study(gpu);
  study.axes = {axis("batch", "1:64:x2")};
  study.objective = "max tokens_per_J";
  SweepOptions options;
  options.threads = 2;
  std::string text;
  for (const StudyRow& row : best_points(study, 3, options, 100).rows) text += std::to_string(row.point) + " ";
  return text;
}

std::string which_matters(const std::string& gpu) {
  std::string text;
  for (const ParameterEffect& each : sensitivity(step_study(gpu)).parameters) {
    text += each.path + " " + std::to_string(each.latency) + " " + std::to_string(each.energy_ratio) + "\n";
  }
  return text;
}

std::string solved(const std::string& gpu) {
  SolveQuestion question;
  question.name = "set.memory.bandwidth";
  question.targets = {"latency_s<=0.002"};
  return std::to_string(solve(step_study(gpu), question).value);
}

std::string differing(const std::string& gpu) {
  const StudyDifference d = difference(step_study(gpu), step_study("h100"));
  return std::to_string(d.latency_ratio.value) + " " + std::to_string(d.operators.size());
}

std::string refused(const std::string& gpu) {
  Study study = step_study(gpu);
  study.base.push_back({"tp", "7"});
  try {
    (void)sensitivity(study);
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

using Asked = std::string (*)(const std::string& gpu);
constexpr Asked kAll[] = {swept, best, which_matters, solved, differing, refused};

TEST(StudyThreads, AnswersAreThoseOfCallsAlone) {
  const std::vector<std::string> gpus{"h200", "a100"};
  std::vector<std::string> together(2 * std::size(kAll) * gpus.size());
  std::vector<std::thread> threads;  // the first calls of all: what is loaded once is loaded by several
  for (std::size_t i = 0; i < together.size(); ++i) {
    threads.emplace_back(
        [&, i] { together[i] = kAll[i % std::size(kAll)](gpus[(i / std::size(kAll)) % gpus.size()]); });
  }
  for (std::thread& each : threads) each.join();
  for (std::size_t i = 0; i < together.size(); ++i) {
    const std::string alone = kAll[i % std::size(kAll)](gpus[(i / std::size(kAll)) % gpus.size()]);
    EXPECT_EQ(together[i], alone) << i;
    EXPECT_FALSE(alone.empty()) << i;
  }
}

}  // namespace
}  // namespace plumbline::study_threads_test
