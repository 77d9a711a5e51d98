// Sensitivity, solve and diff: against single predictions, on machines whose answer is known by hand.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/study.hpp"
#include "tests/support/places.hpp"
#include "tests/support/run_program.hpp"

namespace plumbline::whatif_test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

Study step_study(const std::string& stack = "trt-llm") {
  Study study;
  study.base = {{"model", "llama-3.2-1b"}, {"gpu", "h200"},     {"phase", "decode"},
                {"batch", "16"},           {"context", "2048"}, {"stack", stack}};
  return study;
}

StepPrediction predicted(const std::vector<Override>& overrides, std::int64_t batch = 16) {
  MachineKey key{"h200"};
  key.options.clock = ClockMode::steady;
  key.overrides = overrides;
  Workload workload;
  workload.batch = batch;
  workload.context = 2048;
  return predict(load_llm("llama-3.2-1b"), workload, machines().get(key), RunOptions{});
}

const ParameterEffect& effect(const Sensitivity& s, const std::string& path) {
  return *std::find_if(s.parameters.begin(), s.parameters.end(),
                       [&](const ParameterEffect& e) { return e.path == path; });
}

/// On the roofline the time of a product that memory binds goes with the bandwidth alone, of one that compute binds with
/// SMs, clock and rate.
TEST(Sensitivities, OfTheRooflineAreKnownByHand) {
  Study study;
  study.of_op = true;
  study.base = {{"op", "gemm"}, {"M", "1"}, {"N", "8192"}, {"K", "8192"}, {"gpu", "h200"}, {"kernels", "ideal"}};
  const Sensitivity thin = sensitivity(study);
  EXPECT_EQ(thin.parameters.front().path, "memory.bandwidth");
  EXPECT_NEAR(thin.parameters.front().latency, -1, 1e-9);
  EXPECT_NEAR(thin.parameters.front().latency_ratio.value, 1 / 1.1, 1e-9);
  EXPECT_EQ(thin.parameters.front().latency_ratio.low, thin.parameters.front().latency_ratio.value);
  EXPECT_EQ(effect(thin, "sm_count").latency, 0);
  study.base[1].value = "8192";
  const Sensitivity thick = sensitivity(study);
  for (const char* path : {"sm_count", "boost_clock", "sm.tensor_flop_per_clk.bf16", "tensor_bf16"}) {
    EXPECT_NEAR(effect(thick, path).latency, -1, 1e-9) << path;
  }
  EXPECT_EQ(effect(thick, "memory.bandwidth").latency, 0);
  ASSERT_EQ(thick.interactions.size(), 4U);
  for (const ParameterInteraction& each : thick.interactions) EXPECT_NEAR(each.together, each.product, 1e-9);
}

TEST(Sensitivities, AreThoseOfSinglePredictions) {
  const Sensitivity s = sensitivity(step_study());
  EXPECT_EQ(s.parameters.size(), gpu_parameters().size());
  const StepPrediction before = predicted({}), up = predicted({{"memory.bandwidth", "+10%"}}),
                       down = predicted({{"memory.bandwidth", "-10%"}});
  const ParameterEffect& bandwidth = effect(s, "memory.bandwidth");
  EXPECT_NEAR(s.latency_s, before.latency.in(units::s), 1e-15);
  EXPECT_NEAR(bandwidth.latency_ratio.value, up.latency / before.latency, 1e-9);
  EXPECT_NEAR(bandwidth.latency, std::log(up.latency / down.latency) / std::log(1.1 / 0.9), 1e-6);
  EXPECT_NEAR(bandwidth.energy_ratio, *up.energy / *before.energy, 1e-9);
  double saved = 0;
  for (const OperatorCost& each : bandwidth.saved) saved += each.time_s;
  EXPECT_NEAR(saved, (before.latency - up.latency).in(units::s), 1e-9);
  // errors common to both cancel: the ratio's band is narrower than either step's, and holds the ratio
  EXPECT_LT(bandwidth.latency_ratio.low, bandwidth.latency_ratio.value);
  EXPECT_GT(bandwidth.latency_ratio.high, bandwidth.latency_ratio.value);
  EXPECT_LT(std::log(bandwidth.latency_ratio.high / bandwidth.latency_ratio.low),
            0.5 * std::log(before.high / before.low));
  EXPECT_THAT(effect(s, "datasheet.tensor_clock").why_not, HasSubstr("datasheet"));
  EXPECT_THAT(effect(s, "sm.threads").why_not, HasSubstr("multiple of the warp size"));
}

/// Under the power cap the TDP is what more speed costs.
TEST(Sensitivities, HaveTheTdpWherePowerLimits) {
  Study study = step_study();
  study.base[2].value = "prefill";
  study.base[3] = {"batch", "4"};
  study.base[4] = {"prompt", "4096"};
  const ParameterEffect tdp = effect(sensitivity(study), "tdp");
  EXPECT_LT(tdp.latency, -0.05);
  EXPECT_LT(tdp.tokens_per_J, 0);
}

TEST(Solving, FindsTheLeastNumberThatMeetsATarget) {
  SolveQuestion question;
  question.name = "set.memory.bandwidth";
  const double target = predicted({{"memory.bandwidth", "5.5 TB/s"}}).latency.in(units::s);
  question.targets = {"latency_s<=" + std::to_string(target)};
  const Solution solution = solve(step_study(), question);
  ASSERT_TRUE(solution.found);
  EXPECT_NEAR(solution.value, 5.5e12, 0.1e12);
  EXPECT_DOUBLE_EQ(solution.present, 4.8e12);
  const auto latency = [](double bandwidth) {
    return predicted({{"memory.bandwidth", std::to_string(bandwidth) + " B/s"}}).latency.in(units::s);
  };
  EXPECT_LE(latency(solution.value), std::stod(question.targets[0].substr(11)) * (1 + 1e-9));
  EXPECT_GT(latency(0.995 * solution.value), std::stod(question.targets[0].substr(11)));
  question.targets = {"latency_s<=1e-6"};
  const Solution none = solve(step_study(), question);
  EXPECT_FALSE(none.found);
  EXPECT_EQ(none.unmet, "latency_s<=1e-6");
  EXPECT_FALSE(none.bound.empty());
}

TEST(Solving, FindsTheLargestBatchAndTheFewestGpus) {
  SolveQuestion question;
  question.name = "batch";
  question.largest = true;
  const double target = predicted({}, 100).latency.in(units::s);
  question.targets = {"latency_s<=" + std::to_string(target)};
  const Solution batch = solve(step_study(), question);
  ASSERT_TRUE(batch.found);
  const double limit = std::stod(question.targets[0].substr(11));
  const auto whole = static_cast<std::int64_t>(batch.value);
  EXPECT_LE(predicted({}, whole).latency.in(units::s), limit);
  EXPECT_GT(predicted({}, whole + 1).latency.in(units::s), limit);
  Study large = step_study();
  large.base[0].value = "llama-3.1-70b";
  question = {};
  question.name = "gpus";
  question.targets = {"latency_s<=1"};
  EXPECT_EQ(solve(large, question).value, 2);  // 141 GB of weights do not fit one GPU
}

TEST(Differences, AddUpToTheStepsAndFindWhereTheyCross) {
  Study second = step_study();
  second.base.push_back({"set.sm_count", "+20%"});
  const StudyDifference d = difference(step_study(), second);
  double before = 0, after = 0;
  for (const OperatorDifference& each : d.operators) before += each.before.time_s, after += each.after.time_s;
  EXPECT_NEAR(before, d.before.latency_s, 1e-9);
  EXPECT_NEAR(after, d.after.latency_s, 1e-9);
  EXPECT_TRUE(d.same_machine);
  EXPECT_NEAR(d.latency_ratio.value, predicted({{"sm_count", "+20%"}}).latency / predicted({}).latency, 1e-12);
  EXPECT_LT(d.latency_ratio.low, d.latency_ratio.value);
  // a faster memory against more tensor rate: small batches want the one, large ones the other
  Study fast = step_study("ideal"), wide = step_study("ideal");
  fast.base[4].value = wide.base[4].value = "16";  // little cache, which only memory moves
  fast.base.push_back({"set.memory.bandwidth", "+50%"});
  wide.base.push_back({"set.tensor_bf16", "x1.4"});
  const StudyDifference crossing = difference(fast, wide);
  const auto at = std::find_if(crossing.cross_overs.begin(), crossing.cross_overs.end(),
                               [](const CrossOver& c) { return c.name == "batch"; });
  ASSERT_NE(at, crossing.cross_overs.end());
  EXPECT_TRUE(at->second_from);
  const auto ahead = [&](std::int64_t batch) {
    Study x = fast, y = wide;
    x.base[3].value = y.base[3].value = std::to_string(batch);
    const StudyDifference there = difference(x, y);
    return there.after.latency_s < there.before.latency_s;
  };
  EXPECT_TRUE(ahead(at->at));
  EXPECT_FALSE(ahead(at->at - 1));
  Study op;
  op.of_op = true;
  op.base = {{"op", "gemm"}, {"M", "8"}, {"N", "8"}, {"K", "8"}, {"gpu", "h200"}};
  EXPECT_THROW((void)difference(step_study(), op), BadInput);
}

test::ProgramResult run(const Words& words) { return test::run_program("predict-model", words); }

TEST(WhatIfCommands, PrintEveryFormatAndRefuseWhatTheyCannotMean) {
  const Words step{"llm", "--model", "llama-3.2-1b", "--gpu", "h200", "--phase", "decode"};
  const auto with = [&](const std::string& command, const Words& more) {
    Words words{command};
    words.insert(words.end(), step.begin(), step.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  for (const char* format : {"table", "json", "csv", "html", "svg"}) {
    for (const Words& words : {with("sensitivity", {"--format", format}),
                               with("diff", {"--against", "--gpu", "h100", "--format", format})}) {
      const auto result = run(words);
      EXPECT_EQ(result.code, 0) << result.err;
      EXPECT_GT(result.out.size(), 200U);
      if (std::string(format) == "json") {
        EXPECT_FALSE(Json::parse(result.out).empty());
      }
    }
  }
  for (const char* format : {"table", "json", "html", "svg"}) {
    const auto result = run(with("solve", {"--vary", "batch", "--target", "latency_s<=0.01", "--format", format}));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_GT(result.out.size(), 150U);
  }
  EXPECT_EQ(run(with("solve", {"--vary", "tdp=300W:900W", "--target", "latency_s<=1e-9"})).code, 1);
  const std::vector<std::pair<Words, std::string>> wrong{
      {with("sensitivity", {"--batch", "1,2"}), "--batch: expected one value, found a list"},
      {with("solve", {"--vary", "memory.bandwith", "--target", "latency_s<=1"}), "did you mean 'memory.bandwidth'"},
      {with("solve", {"--vary", "batch", "--target", "latncy_s<=1"}), "did you mean 'latency_s'"},
      {with("solve", {"--vary", "batch", "--target", "latency_s<=fast"}), "expected a number"},
      {with("solve", {"--vary", "batch=9:3", "--target", "latency_s<=1"}), "FROM:TO"},
      {with("diff", {}), "--against"},
      {with("diff", {"--against", "--gpuu", "h100"}), "did you mean 'gpus'"}};
  for (const auto& [words, said] : wrong) {
    const auto result = run(words);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr(said));
  }
}

/// Each study that is shipped can be read, and its answer stands on the page, which another test plays.
TEST(ReadyStudies, StandOnThePage) {
  const std::string root = std::filesystem::canonical(testing_support::tests_folder() + "/..").string();
  const std::string page = test::whole_file(root + "/docs/studies.md");
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/data/studies/whatif")) {
    const std::string name = entry.path().filename().string();
    EXPECT_THAT(page, HasSubstr("sweep data/studies/whatif/" + name)) << name;
    const std::string file = entry.path().string();  // wherever this runs: files lie beside the study
    EXPECT_GT(point_count(parse_study(test::whole_file(file), file)), 1) << name;
    ++seen;
  }
  EXPECT_GE(seen, 8);
}

/// Beside the study first, then where the program runs.
TEST(StudyFiles, AreLookedForBesideTheStudy) {
  const test::TemporaryFolder folder;
  const std::string card = std::filesystem::canonical(testing_support::tests_folder() + "/../data/gpus/h200_sxm.json");
  test::put_file(folder / "card.json", test::whole_file(card));
  const std::string words = R"({"schema": 1, "base": {"command": "op", "op": "gemm", "M": 8, "N": 64, "K": 64},
    "axes": [{"name": "gpu", "values": ["h100", "./card.json"]}, {"name": "label", "values": ["a/b", "card.json"]}]})";
  const Study study = parse_study(words, folder / "study.json");
  EXPECT_EQ(study.axes[0].values[1].front(), folder / "card.json");
  EXPECT_EQ(study.axes[1].values[1].front(), "card.json");  // a label is no file
  EXPECT_THROW(parse_study(words, "study.json"), BadInput);
}

TEST(StudyLabels, NamePointsAndChangeNothing) {
  Study study = step_study();
  study.columns = {"latency_s", "energy_J"};
  study.axes = {{{"label"}, {{"one"}, {"the other"}}}};
  std::vector<StudyRow> rows;
  sweep_rows(study, {}, [&](const StudyRow& row) { rows.push_back(row); });
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].figures, rows[1].figures);
  EXPECT_EQ(rows[1].settings, Words{"the other"});
}

/// What was tried holds the answer, met, and every value that is said to meet the targets does.
TEST(Solutions, KeepWhatWasTried) {
  SolveQuestion question;
  question.name = "batch";
  question.largest = true;
  question.targets = {"latency_s<=0.004", "power_W<=690"};
  const Solution s = solve(step_study(), question);
  ASSERT_TRUE(s.found);
  ASSERT_EQ(s.limits.size(), 2U);
  EXPECT_EQ(s.limits[0], 0.004);
  bool answer = false;
  double last = 0;
  for (const SolveTrial& trial : s.tried) {
    EXPECT_GE(trial.value, last);
    last = trial.value;
    answer = answer || (trial.value == s.value && trial.met);
    EXPECT_EQ(trial.met, trial.fits && trial.figures[0] <= 0.004 && trial.figures[1] <= 690) << trial.value;
  }
  EXPECT_TRUE(answer);
}

}  // namespace
}  // namespace plumbline::whatif_test
