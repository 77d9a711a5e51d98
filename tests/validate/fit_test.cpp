#include "validate/fit/fit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "arch/error.hpp"

namespace plumbline::fit_test {
namespace {

/// A machine with three scalars: t = fixed + max(bytes / (bandwidth part), flops / (peak part)).
struct FakeMachine {
  std::vector<double> bytes_s, flops_s;  ///< seconds at full rate

  void operator()(const std::vector<double>& p, const std::vector<std::size_t>& rows, std::vector<double>& out) const {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      out[i] = p[0] + std::max(bytes_s[rows[i]] / p[1], flops_s[rows[i]] / p[2]);
    }
  }
};

FakeMachine machine_of(std::size_t rows) {
  FakeMachine machine;
  for (std::size_t i = 0; i < rows; ++i) {
    machine.bytes_s.push_back(1e-6 * std::pow(1.02, static_cast<double>(i)));
    machine.flops_s.push_back(1e-6 * std::pow(1.03, static_cast<double>((i * 37) % rows)));
  }
  return machine;
}

std::vector<std::size_t> every(std::size_t count) {
  std::vector<std::size_t> rows(count);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  return rows;
}

const std::vector<double> kTruth{2.5e-6, 0.91, 0.67};

FitProblem problem_of(std::size_t rows) {
  FitProblem problem;
  const FakeMachine machine = machine_of(rows);
  problem.predict = machine;
  problem.parameters = {
      {"fixed_s", 1e-6, 1e-8, 1e-4}, {"dram_fraction", 0.5, 0.1, 1}, {"tensor_fraction", 0.9, 0.1, 1}};
  problem.measured_s.resize(rows);
  machine(kTruth, every(rows), problem.measured_s);
  problem.weights.assign(rows, 1.0);
  return problem;
}

TEST(Fit, RecoversKnownScalarsFromExactRows) {
  const FitProblem problem = problem_of(150);
  const FitResult result = fit(problem, every(150));
  ASSERT_EQ(result.values.size(), 3U);
  for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(result.values[j] / kTruth[j], 1, 1e-3) << j;
  EXPECT_GT(result.median_before, 0.1);
  EXPECT_LT(result.median_after, 1e-3);
  EXPECT_TRUE(result.at_bound.empty());
}

TEST(Fit, AFifthOfWildRowsDoesNotBendIt) {
  FitProblem problem = problem_of(150);
  for (std::size_t i = 0; i < 150; i += 5) problem.measured_s[i] *= 8;  // another, slow kernel
  const FitResult result = fit(problem, every(150));
  for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(result.values[j] / kTruth[j], 1, 0.01) << j;
}

TEST(Fit, StopsAtTheBoundAndSaysSo) {
  FitProblem problem = problem_of(150);
  problem.parameters[2] = {"tensor_fraction", 0.9, 0.8, 1};  // the truth, 0.67, is outside
  const FitResult result = fit(problem, every(150));
  EXPECT_DOUBLE_EQ(result.values[2], 0.8);
  EXPECT_EQ(result.at_bound, std::vector<std::size_t>{2});
  EXPECT_LT(result.loss_after, result.loss_before);
}

TEST(Fit, AScalarWithoutEffectStaysWhereItWas) {
  FitProblem problem = problem_of(80);
  problem.parameters.push_back({"unused", 3.0, 0.1, 10});
  const FitResult result = fit(problem, every(80));
  EXPECT_NEAR(result.values[3], 3.0, 1e-9);
  EXPECT_NEAR(result.values[1] / kTruth[1], 1, 1e-3);
}

TEST(Fit, IsTheSameEveryTime) {
  const FitProblem problem = problem_of(97);
  EXPECT_EQ(fit(problem, every(97)).values, fit(problem, every(97)).values);
}

TEST(Fit, WeightsDecideWhichRowsCount) {
  FitProblem problem;
  problem.predict = [](const std::vector<double>& p, const std::vector<std::size_t>& rows, std::vector<double>& out) {
    out.assign(rows.size(), p[0]);
  };
  problem.parameters = {{"level", 1.5, 0.1, 10}};
  problem.measured_s = {1, 1, 1, 2, 2};
  problem.weights.assign(5, 1.0);
  EXPECT_NEAR(fit(problem, every(5)).values[0], 1, 0.02);  // most rows say 1: a median, not a mean
  problem.weights = {1, 1, 1, 4, 4};
  EXPECT_NEAR(fit(problem, every(5)).values[0], 2, 0.03);
}

TEST(Fit, RefusesTooFewRowsAndBadBounds) {
  FitProblem problem = problem_of(20);
  EXPECT_THROW(fit(problem, {0, 1}), BadInput);
  problem.parameters[0].low = 0;
  EXPECT_THROW(fit(problem, every(20)), BadInput);
}

TEST(CrossValidation, EachRowIsPredictedWithoutItsFold) {
  // Fold 0 measures 1, fold 1 measures 2: a level fitted on the other fold is off by a factor of two.
  FitProblem problem;
  problem.predict = [](const std::vector<double>& p, const std::vector<std::size_t>& rows, std::vector<double>& out) {
    out.assign(rows.size(), p[0]);
  };
  problem.parameters = {{"level", 1.5, 0.1, 10}};
  problem.measured_s = {1, 1, 2, 2};
  problem.weights.assign(4, 1.0);
  const std::vector<double> r =
      cross_validated_residuals(problem, every(4), {true, true, true, true}, {0, 0, 1, 1}, 2, {1.5});
  ASSERT_EQ(r.size(), 4U);
  EXPECT_NEAR(r[0], -std::log(2.0), 0.02);
  EXPECT_NEAR(r[3], std::log(2.0), 0.02);
}

TEST(CrossValidation, RowsThatAreNotTrainedOnAreStillPredicted) {
  FitProblem problem = problem_of(60);
  problem.measured_s[7] *= 2;
  std::vector<bool> trained(60, true);
  trained[7] = false;
  std::vector<int> folds(60);
  for (std::size_t i = 0; i < 60; ++i) folds[i] = static_cast<int>(i % 5);
  const std::vector<double> r = cross_validated_residuals(problem, every(60), trained, folds, 5, kTruth);
  EXPECT_NEAR(r[7], std::log(2.0), 0.01);
  EXPECT_NEAR(r[8], 0, 0.01);
}

TEST(DealFolds, FoldsAreEvenAndEqualTextsFallTogether) {
  std::vector<std::string> texts;
  for (int i = 0; i < 100; ++i) texts.push_back("M=" + std::to_string(i));
  for (int i = 0; i < 100; ++i) texts.push_back("M=" + std::to_string(i));
  const std::vector<int> folds = deal_folds(texts, 5);
  std::vector<int> count(5, 0);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(folds[i], folds[i + 100]);
    ++count.at(static_cast<std::size_t>(folds[i]));
  }
  EXPECT_EQ(count, std::vector<int>(5, 20));
  EXPECT_EQ(std::set<int>(folds.begin(), folds.begin() + 8).size() > 1, true);  // not the order of the file
}

}  // namespace
}  // namespace plumbline::fit_test
