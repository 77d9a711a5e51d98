#include "validate/compare/compare.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace plumbline::compare_test {
namespace {

Comparison row(double measured_us, double predicted_us, const std::string& shape = "M=1",
               const std::string& dtype = "bf16") {
  Comparison out;
  out.gpu = "h200_sxm";
  out.op = "gemm";
  out.dtype = dtype;
  out.shape = shape;
  out.measured = measured_us * units::us;
  out.predicted = predicted_us * units::us;
  out.low = 0.9 * out.predicted;
  out.high = 1.1 * out.predicted;
  out.roofline = 0.5 * out.measured;
  return out;
}

TEST(SizeClass, LimitsAreTenAndHundredMicroseconds) {
  EXPECT_EQ(size_class(9.99 * units::us), SizeClass::small);
  EXPECT_EQ(size_class(10.0 * units::us), SizeClass::middle);
  EXPECT_EQ(size_class(99.9 * units::us), SizeClass::middle);
  EXPECT_EQ(size_class(100.0 * units::us), SizeClass::large);
}

TEST(Summarize, FiguresOfOneClass) {
  // ratios 1.05, 0.5, 2, 1.0
  const std::vector<Comparison> rows{row(20, 21), row(40, 20), row(30, 60, "M=2"), row(50, 50)};
  const std::vector<ClassSummary> all = summarize(rows);
  ASSERT_EQ(all.size(), 1U);
  const ClassSummary& c = all[0];
  EXPECT_EQ(c.count, 4);
  EXPECT_EQ(c.size, SizeClass::middle);
  EXPECT_NEAR(c.mape, (0.05 + 0.5 + 1.0 + 0.0) / 4, 1e-12);
  EXPECT_NEAR(c.median_error, (std::log(1.05) + std::log(2.0)) / 2, 1e-12);
  EXPECT_NEAR(c.p90_error, std::log(2.0), 1e-12);
  EXPECT_NEAR(c.mean_bias, std::log(1.05) / 4, 1e-12);
  EXPECT_NEAR(c.median_bias, std::log(1.05) / 2, 1e-12);
  EXPECT_DOUBLE_EQ(c.within_band, 0.5);  // 1.05 and 1.0 are inside +-10 %
  EXPECT_NEAR(c.roofline_median_error, std::log(2.0), 1e-12);
  EXPECT_NEAR(c.roofline_median_bias, -std::log(2.0), 1e-12);
  ASSERT_TRUE(c.spearman);
  EXPECT_NEAR(*c.spearman, 0.0, 1e-12);  // ranks 1 3 2 4 against 2 1 4 3
}

/// 0 to 10 %, one row a percent: the 90th percentile is 9 %, no other is.
TEST(Summarize, TheNinetiethPercentileIsTheNinetieth) {
  std::vector<Comparison> rows;
  for (int i = 0; i <= 10; ++i) rows.push_back(row(20, 20 * std::exp(0.01 * i)));
  const ClassSummary c = summarize(rows).at(0);
  EXPECT_NEAR(c.p90_error, 0.09, 1e-12);
  EXPECT_NEAR(c.median_error, 0.05, 1e-12);
}

TEST(Summarize, TheWorstRowIsTheFarthestEitherWay) {
  const std::vector<ClassSummary> slow = summarize({row(20, 60, "slow"), row(20, 8, "fast"), row(20, 20, "right")});
  EXPECT_EQ(slow.at(0).worst.shape, "slow");
  const std::vector<ClassSummary> fast = summarize({row(20, 40, "slow"), row(20, 8, "fast"), row(20, 20, "right")});
  EXPECT_EQ(fast.at(0).worst.shape, "fast");
}

TEST(Summarize, SplitsByDtypeAndSizeAndAddsAllOfTheOp) {
  Comparison other = row(5, 5);
  other.op = "rmsnorm";
  const std::vector<ClassSummary> all =
      summarize({row(5, 5), row(50, 50), row(500, 500), row(50, 55, "M=1", "fp8"), other});
  ASSERT_EQ(all.size(), 6U);
  EXPECT_EQ(name(all[0].size), "<10us");
  EXPECT_EQ(name(all[1].size), "10-100us");
  EXPECT_EQ(name(all[2].size), ">=100us");
  EXPECT_EQ(all[3].dtype, "fp8");
  EXPECT_EQ(all[4].dtype, "all");
  EXPECT_EQ(all[4].size, SizeClass::all);
  EXPECT_EQ(all[4].count, 4);
  EXPECT_EQ(all[5].op, "rmsnorm");  // one class only: no "all" row of its own
}

TEST(Summarize, RowsThatWereNotModelledCountNowhere) {
  Comparison failed;
  failed.gpu = "h200_sxm";
  failed.op = "gemm";
  failed.error = "no planner";
  EXPECT_TRUE(summarize({failed}).empty());
  EXPECT_EQ(summarize({failed, row(20, 20)}).at(0).count, 1);
}

TEST(Summarize, PowerCountsRowsWithBothPowers) {
  Comparison both = row(20, 20), one = row(20, 20);
  both.measured_power = 500.0 * units::W;
  both.predicted_power = 550.0 * units::W;
  one.measured_power = 500.0 * units::W;
  const std::vector<ClassSummary> all = summarize({both, one});
  EXPECT_EQ(all.at(0).power_count, 1);
  EXPECT_NEAR(all.at(0).power_median_error, std::log(1.1), 1e-12);
}

TEST(WorseThan, LooksAtClassesAndNotAtTheirSum) {
  std::vector<ClassSummary> classes = summarize({row(5, 6), row(50, 50)});
  ASSERT_EQ(classes.size(), 3U);
  EXPECT_EQ(worse_than(classes, 0.19), nullptr);
  EXPECT_EQ(worse_than(classes, 0.17), &classes[0]);
  classes[0].median_error = 0;
  classes[2].median_error = 9;
  EXPECT_EQ(worse_than(classes, 0.17), nullptr);
}

}  // namespace
}  // namespace plumbline::compare_test
