#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/support/band_residuals.hpp"
#include "validate/fit/fit_bands.hpp"

namespace plumbline::band_statistics_test {
namespace {

using band_residuals::residual;

std::vector<double> whole_numbers(int n) {
  std::vector<double> values;
  for (int i = n; i >= 1; --i) values.push_back(i);
  return values;
}

/// The k-th smallest and k-th largest of n, k = floor(0.05 (n + 1)).
TEST(ResidualBand, AreOrderStatisticsThatHoldAFurtherValue) {
  const auto expect = [](int n, double low, double high) {
    const Band band = residual_band(whole_numbers(n));
    EXPECT_EQ(band.low, low) << n;
    EXPECT_EQ(band.high, high) << n;
    EXPECT_EQ(band.rows, n);
    EXPECT_GE(band.middle, low);
    EXPECT_LE(band.middle, high);
  };
  expect(1, 1, 1);
  expect(18, 1, 18);
  expect(19, 1, 19);
  expect(38, 1, 38);
  expect(39, 2, 38);
  expect(999, 50, 950);
  EXPECT_EQ(residual_band(whole_numbers(999)).middle, 500);
}

TEST(ResidualBand, EqualWeightsAreNone) {
  for (const int n : {19, 39, 100}) {
    const std::vector<double> values = whole_numbers(n);
    const Band plain = residual_band(values), weighted = residual_band(values, std::vector<double>(values.size(), 0.3));
    EXPECT_EQ(plain.low, weighted.low);
    EXPECT_EQ(plain.middle, weighted.middle);
    EXPECT_EQ(plain.high, weighted.high);
  }
}

/// Twenty heavy values decide where a thousand light ones would hide them.
TEST(ResidualBand, WeightsShiftTheTails) {
  std::vector<double> values(1000, 0.0), weights(1000, 1e-3);
  for (int i = 0; i < 20; ++i) {
    values.push_back(0.5 + 0.01 * i);
    weights.push_back(0.05);
  }
  EXPECT_EQ(residual_band(values).high, 0.0);
  EXPECT_GT(residual_band(values, weights).high, 0.6);
  EXPECT_EQ(residual_band(values, weights).low, 0.0);
}

TEST(ResidualBand, HoldsNinetyPercentOfFurtherValuesWhateverTheDistribution) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> skewed(0, 1);
  long inside = 0, all = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> values(30);
    for (double& v : values) v = skewed(random);
    const Band band = residual_band(values);
    for (int i = 0; i < 10; ++i) {
      const double further = skewed(random);
      inside += band.low <= further && further <= band.high ? 1 : 0;
      ++all;
    }
  }
  EXPECT_GT(static_cast<double>(inside), 0.895 * static_cast<double>(all));
  EXPECT_LT(static_cast<double>(inside), 0.96 * static_cast<double>(all));  // of 30: the ends, 29/31
}

TEST(BandsOf, AClassWithFewRowsTakesTheWiderOneAndHoldsItsOwn) {
  std::vector<BandResidual> rows;
  for (int i = 0; i < 60; ++i) rows.push_back(residual("add", 2, 0.001 * i));
  rows.push_back(residual("copy", 2, 0.5));
  rows.push_back(residual("topk", 0, -0.7));
  const auto bands = bands_of(rows, KernelSet::own, BandSection::own_card);
  EXPECT_EQ(bands.at("own.add.large").rows, 60);
  EXPECT_EQ(bands.at("own.add.large").pooled, "");
  EXPECT_NEAR(bands.at("own.add.large").high, 0.057, 1e-4);
  EXPECT_EQ(bands.count("own.add.large.memory"), 0U);  // says no more
  const Band& copy = bands.at("own.copy.large");
  EXPECT_EQ(copy.pooled, "own.stream.large");
  EXPECT_EQ(copy.rows, 61);
  EXPECT_NEAR(copy.low, 0.002, 1e-4);
  EXPECT_NEAR(copy.high, 0.5, 1e-4);
  const Band& topk = bands.at("own.select_scan.any");
  EXPECT_EQ(topk.pooled, "own.all.any");
  EXPECT_EQ(topk.rows, 62);
  EXPECT_NEAR(topk.low, -0.7, 1e-4);
  EXPECT_EQ(bands.count("own.gemm.large"), 0U);
  EXPECT_TRUE(bands_of(rows, KernelSet::library, BandSection::own_card).empty());
  EXPECT_TRUE(bands_of(rows, KernelSet::own, BandSection::near).empty());
}

/// Two stacks with enough rows for a band count equally, however many rows they have.
TEST(BandsOf, LargeStacksCountEqually) {
  std::vector<BandResidual> rows;
  for (int i = 0; i < 400; ++i) {
    rows.push_back(residual("gemm", 2, 0.1));
    rows.back().stack = "many";
  }
  for (int i = 0; i < 20; ++i) {
    rows.push_back(residual("gemm", 2, -0.3));
    rows.back().stack = "few";
  }
  EXPECT_NEAR(bands_of(rows, KernelSet::own, BandSection::own_card).at("own.matrix.any").low, -0.3, 1e-4);
}

/// A stack with fewer rows than a band needs is no stack of its own: each of its rows counts as one of the largest's.
TEST(BandsOf, RowsOfASmallStackCountAsRowsOfTheLargest) {
  std::vector<BandResidual> rows;
  for (int i = 0; i < 400; ++i) {
    rows.push_back(residual("gemm", 2, 0.0001 * i));
    rows.back().stack = "many";
  }
  for (int i = 0; i < 4; ++i) {
    rows.push_back(residual("gemm", 2, 0.9));
    rows.back().stack = "few";
  }
  const Band band = bands_of(rows, KernelSet::own, BandSection::own_card).at("own.matrix.any");
  EXPECT_NEAR(band.high, 0.0384, 1e-3);  // 20 of 405 lie above it: the four, and sixteen of the many
  EXPECT_NEAR(band.middle, 0.0201, 1e-3);
}

/// A hundred rows of five groups that err as groups: 5 % tails of all rows hold the groups that were left out less often than
/// nine times in ten, so that the band goes further out than that of rows that err each by itself.
TEST(BandsOf, GroupsOfShapesThatErrAlikeWidenTheBand) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  std::vector<BandResidual> rows;
  for (int group = 0; group < 5; ++group) {
    for (int i = 0; i < 20; ++i) {
      rows.push_back(residual("gemm", 2, 0.1 * group + 0.005 * normal(random)));
      rows.back().group = std::to_string(group);
    }
  }
  const auto width = [&] {
    const Band band = bands_of(rows, KernelSet::own, BandSection::own_card).at("own.matrix.any");
    return band.high - band.low;
  };
  const double grouped = width();
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].group = std::to_string(i);
  EXPECT_GT(grouped, width());
}

/// "rowwise" is of no kind: few rows of it take what all kernels have.
TEST(BandsOf, AClassOfNoKindTakesAll) {
  std::vector<BandResidual> rows;
  for (int i = 0; i < 60; ++i) rows.push_back(residual("add", 2, 0.001 * i));
  rows.push_back(residual("rowwise", 2, 0.5));
  const Band band = bands_of(rows, KernelSet::own, BandSection::own_card).at("own.rowwise.large");
  EXPECT_EQ(band.pooled, "own.all.large");
  EXPECT_NEAR(band.high, 0.5, 1e-4);
}

/// e = a x common(context) + b x common(context, class) + c x own: correlations a^2 and a^2 + b^2 of a unit variance.
TEST(CorrelationOf, FindsWhatRowsOfAContextHaveInCommon) {
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  const auto correlation = [&](double a, double b) {
    const double c = std::sqrt(1 - a * a - b * b);
    std::vector<BandResidual> rows;
    for (int context = 0; context < 300; ++context) {
      const double common = a * normal(random);
      for (const char* band_class : {"add", "gemm", "softmax"}) {
        const double of_class = b * normal(random);
        for (int i = 0; i < 4; ++i) {
          rows.push_back(
              residual(band_class, 1, 0.1 * (common + of_class + c * normal(random)), std::to_string(context)));
        }
      }
    }
    return correlation_of(rows, bands_of(rows, KernelSet::own, BandSection::own_card), KernelSet::own,
                          BandSection::own_card);
  };
  const BandCorrelation none = correlation(0, 0), some = correlation(0.5, 0.5), all = correlation(1, 0);
  EXPECT_NEAR(none.same_class, 0, 0.04);
  EXPECT_NEAR(none.other_class, 0, 0.04);
  EXPECT_NEAR(some.other_class, 0.25, 0.06);
  EXPECT_NEAR(some.same_class, 0.5, 0.06);
  EXPECT_NEAR(all.other_class, 1, 1e-6);
  EXPECT_EQ(all.rows, 3600);
}

}  // namespace
}  // namespace plumbline::band_statistics_test
