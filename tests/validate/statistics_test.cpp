#include "validate/statistics.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace plumbline::statistics_test {
namespace {

TEST(Quantile, InterpolatesBetweenOrderStatistics) {
  // R: quantile(c(7, 1, 3, 10), c(.05, .5, .9))
  EXPECT_DOUBLE_EQ(quantile({7, 1, 3, 10}, 0.05), 1.3);
  EXPECT_DOUBLE_EQ(quantile({7, 1, 3, 10}, 0.5), 5.0);
  EXPECT_DOUBLE_EQ(quantile({7, 1, 3, 10}, 0.9), 9.1);
}

TEST(Quantile, EndsAreTheExtremes) {
  EXPECT_EQ(quantile({5, -2, 9}, 0), -2);
  EXPECT_EQ(quantile({5, -2, 9}, 1), 9);
  EXPECT_EQ(quantile({4}, 0.9), 4);
}

RC_GTEST_PROP(Quantile, RisesWithQAndStaysBetweenTheExtremes, (std::vector<int> raw)) {
  RC_PRE(!raw.empty());
  const std::vector<double> values(raw.begin(), raw.end());
  const double low = *std::min_element(values.begin(), values.end());
  const double high = *std::max_element(values.begin(), values.end());
  double before = low;
  for (double q : {0.0, 0.05, 0.3, 0.5, 0.9, 1.0}) {
    const double now = quantile(values, q);
    RC_ASSERT(before <= now);
    RC_ASSERT(now <= high);
    before = now;
  }
}

TEST(Median, OfEvenAndOddCounts) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

TEST(Mean, OfThree) { EXPECT_DOUBLE_EQ(mean({1, 2, 6}), 3); }

TEST(Ranks, TiesShareTheirMean) {
  EXPECT_EQ(ranks({10, 30, 20, 20}), (std::vector<double>{1, 4, 2.5, 2.5}));
  EXPECT_EQ(ranks({5, 5, 5}), (std::vector<double>{2, 2, 2}));
}

TEST(Spearman, IsOneForAnyRisingRelationAndMinusOneForFalling) {
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3, 4}, {1, 10, 100, 1000}).value(), 1);
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3, 4}, {9, 7, 5, -3}).value(), -1);
}

TEST(Spearman, AgreesWithTheTextbookFormula) {
  // No ties: 1 - 6 sum d^2 / (n (n^2 - 1)); ranks of b are 2 1 4 3 5, d^2 sums to 4.
  EXPECT_NEAR(spearman({1, 2, 3, 4, 5}, {20, 10, 40, 30, 50}).value(), 1 - 6.0 * 4 / (5 * 24), 1e-12);
}

TEST(Spearman, SaysNothingForTooFewOrConstant) {
  EXPECT_FALSE(spearman({1, 2}, {1, 2}));
  EXPECT_FALSE(spearman({1, 2, 3}, {7, 7, 7}));
}

}  // namespace
}  // namespace plumbline::statistics_test
