#include "validate/fit/fit_bands.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "ops/table/text.hpp"

namespace plumbline::fit_bands_test {
namespace {

using ::testing::HasSubstr;

std::vector<double> whole_numbers(int n) {
  std::vector<double> values;
  for (int i = n; i >= 1; --i) values.push_back(i);
  return values;
}

/// A file that says that its scalars were fitted to a card's rows, or taken over from that card's file, says nothing of how it
/// errs there; an assumption, or another card's rows, does.
TEST(TransferBands, RowsThatScalarsWereFittedToAreNoTransfer) {
  Calibration c;
  c.families["library.flash"]["fixed_s"] = {1e-6, "not fitted"};
  c.families["library.flash"]["start_clk"] = {10, "fitted on rows of a100_sxm, n=9"};
  c.families["library.taken"]["fixed_s"] = {1e-6, "taken over from a100_sxm: the same kernel"};
  c.families["library.assumed"]["fixed_s"] = {1e-6, "as on a100_sxm, which nobody measured"};
  const auto known = [&](std::string_view family, const std::string& card) {
    return fitted_on(c, KernelSet::library, family, card);
  };
  EXPECT_TRUE(known("flash", "a100_sxm"));
  EXPECT_TRUE(known("taken", "a100_sxm"));
  EXPECT_FALSE(known("flash", "h100_sxm"));
  EXPECT_FALSE(known("assumed", "a100_sxm"));
  EXPECT_FALSE(known("absent", "a100_sxm"));
  EXPECT_FALSE(fitted_on(c, KernelSet::own, "flash", "a100_sxm"));
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

BandResidual residual(const char* band_class, std::size_t size, double value, const std::string& context = "") {
  BandResidual r;
  r.kernels = KernelSet::own;
  r.band_class = band_class_of_name(band_class);
  r.size = size;
  r.bound = Bound::memory;
  r.value = value;
  r.context = context;
  return r;
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

std::vector<BandResidual> rows_of_card(const char* band_class, const char* card, double value, int count) {
  std::vector<BandResidual> rows;
  for (int i = 0; i < count; ++i) {
    rows.push_back(residual(band_class, 2, i % 2 == 0 ? value : -value));
    rows.back().kernels = KernelSet::library;
    rows.back().section = BandSection::near;
    rows.back().card = rows.back().generation = card;
    rows.back().stack = card;
  }
  return rows;
}

void append(std::vector<BandResidual>& to, const std::vector<BandResidual>& rows) {
  to.insert(to.end(), rows.begin(), rows.end());
}

/// A card's 1000 rows that reach 0.1 say as much as another's 19 that reach 0.4: the class is 0.2 of two cards (the
/// mean of logarithms), and so is its kind, which has no other class and is a tenth of a card: 0.15 of the error is
/// drawn anew, 0.2 x sqrt(1 + 0.15/2.1). What is of the kind and was measured on no card of the generation has the
/// kind's word alone, and all of its error is: 0.2 x sqrt(2).
TEST(TransferBands, CardsAreCountedAndNotRows) {
  std::vector<BandResidual> rows = rows_of_card("gemm", "a", 0.1, 1000);
  append(rows, rows_of_card("gemm", "b", 0.4, 19));
  const auto bands = bands_of(rows, KernelSet::library, BandSection::near);
  EXPECT_NEAR(bands.at("library.gemm.large").high, 0.2 * std::sqrt(1 + 0.15 / 2.1), 2e-4);
  EXPECT_NEAR(bands.at("library.gemm.large").low, -0.2 * std::sqrt(1 + 0.15 / 2.1), 2e-4);
  EXPECT_NEAR(bands.at("library.matrix.large").high, 0.2 * std::sqrt(2.0), 2e-4);
  EXPECT_NEAR(bands.at("library.all.any").high, 0.2 * std::sqrt(2.0), 2e-4);
  EXPECT_EQ(bands.at("library.gemm.large").pooled, "");
  EXPECT_TRUE(bands_of(rows, KernelSet::library, BandSection::far).empty());
}

/// Of another generation plain means: two of 0.1 and 0.4, and their kind, 0.25 as well, as three cards.
TEST(TransferBands, AnotherGenerationsReachesAdd) {
  std::vector<BandResidual> rows = rows_of_card("gemm", "a", 0.1, 1000);
  append(rows, rows_of_card("gemm", "b", 0.4, 19));
  for (BandResidual& r : rows) r.section = BandSection::far;
  const auto bands = bands_of(rows, KernelSet::library, BandSection::far);
  EXPECT_NEAR(bands.at("library.gemm.large").high, 0.25 * std::sqrt(1 + 0.5 / 5.0), 2e-4);
  EXPECT_NEAR(bands.at("library.matrix.large").high, 0.25 * std::sqrt(2.0), 2e-4);
}

/// All rows of a class that its scalars were fitted to: that these go over was seen on no card. Its kind reaches 0.3 by
/// what went over, and what did not is a further draw of it as well as of a card, 0.3 x sqrt(3).
TEST(TransferBands, WhatNeverWentOverIsAFurtherDrawOfItsKind) {
  std::vector<BandResidual> rows = rows_of_card("gemm", "a", 0.3, 40);
  std::vector<BandResidual> fitted = rows_of_card("gemv", "a", 0.1, 40);
  for (BandResidual& r : fitted) r.in_sample = true;
  append(rows, fitted);
  for (BandResidual& r : rows) r.section = BandSection::far;
  const auto bands = bands_of(rows, KernelSet::library, BandSection::far);
  EXPECT_NEAR(bands.at("library.matrix.large").high, 0.3 * std::sqrt(2.0), 2e-4);
  EXPECT_NEAR(bands.at("library.gemv.large").high, 0.3 * std::sqrt(3.0), 3e-4);
  EXPECT_EQ(bands.at("library.gemv.large").pooled, "library.matrix.large");
  for (BandResidual& r : rows) r.in_sample = false;
  EXPECT_LT(bands_of(rows, KernelSet::library, BandSection::far).at("library.gemv.large").high, 0.3);
}

/// One decode of one card reaches 0.1, another 0.4, so that their kind reaches 0.2, which counts as a tenth of a card:
/// an eleventh of the way from either to it, each with a further draw's sqrt(1 + 0.15 / 1.1).
TEST(TransferBands, OnOneChipAKindCountsAsATenthOfACard) {
  std::vector<BandResidual> rows = rows_of_card("flash_decode", "a", 0.1, 40);
  append(rows, rows_of_card("attention_decode", "a", 0.4, 40));
  const auto bands = bands_of(rows, KernelSet::library, BandSection::near);
  EXPECT_NEAR(bands.at("library.flash_decode.large").high, 0.1 * std::pow(2, 1.0 / 11) * std::sqrt(1 + 0.15 / 1.1),
              2e-4);
  EXPECT_NEAR(bands.at("library.attention_decode.large").high, 0.4 / std::pow(2, 1.0 / 11) * std::sqrt(1 + 0.15 / 1.1),
              2e-4);
}

/// Rows that the scalars were fitted to reach less far than the next card's will: 1.22 times as far is meant; half of
/// them, the root of it.
TEST(TransferBands, RowsThatScalarsWereFittedToReachFurtherUnseen) {
  std::vector<BandResidual> rows = rows_of_card("gemm", "a", 0.1, 40);
  for (BandResidual& r : rows) r.in_sample = true;
  const auto high = [&] { return bands_of(rows, KernelSet::library, BandSection::near).at("library.gemm.large").high; };
  EXPECT_NEAR(high(), 0.1 * 1.22 * std::sqrt(1 + 0.15 / 1.1), 2e-4);
  for (std::size_t i = 0; i < rows.size(); i += 2) rows[i].in_sample = false;
  EXPECT_NEAR(high(), 0.1 * std::sqrt(1.22) * std::sqrt(1 + 0.15 / 1.1), 2e-4);
}

/// No family is fitted to decode of few keys: that the scalars are of the same card's other rows says nothing of it.
TEST(TransferBands, RowsOfAnUnfittedClassAreInNoSample) {
  std::vector<BandResidual> rows = rows_of_card("flash_decode_short", "a", 0.1, 40);
  for (BandResidual& r : rows) r.in_sample = true;
  EXPECT_NEAR(bands_of(rows, KernelSet::library, BandSection::near).at("library.flash_decode_short.large").high,
              0.1 * std::sqrt(1 + 0.15 / 1.1), 2e-4);
}

/// One row is a nineteenth of a card: its class is what its kind is to two thirds, and as uncertain.
TEST(TransferBands, FewRowsSayLittle) {
  std::vector<BandResidual> rows = rows_of_card("flash_decode", "a", 0.2, 40);
  append(rows, rows_of_card("attention_decode", "a", 0.2, 1));
  const Band band = bands_of(rows, KernelSet::library, BandSection::near).at("library.attention_decode.large");
  EXPECT_NEAR(band.high, 0.2 * std::sqrt(1 + 0.15 / (0.1 + 1.0 / 19)), 2e-4);
  EXPECT_EQ(band.pooled, "library.decode.large");
}

/// Of cards that err by a log-normal scale, bands found on three hold nine in ten rows of a fourth, and do not hold
/// all. What is a card's own is a seventh of the mean square, as between H100 and H200 (the mean over classes of
/// training rows).
TEST(TransferBands, HoldAFurtherCard) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  double inside = 0, all = 0;
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<BandResidual> rows;
    for (const char* card : {"a", "b", "c", "further"}) {
      const double offset = 0.045 * normal(random), scatter = 0.1 * std::exp(0.3 * normal(random));
      for (BandResidual& r : rows_of_card("gemm", card, 0, 40)) {
        r.value = offset + scatter * normal(random);
        rows.push_back(r);
      }
    }
    const std::vector<BandResidual> measured(rows.begin(), rows.begin() + 120);
    const double reach = bands_of(measured, KernelSet::library, BandSection::near).at("library.gemm.large").high;
    for (std::size_t i = 120; i < rows.size(); ++i) {
      inside += std::abs(rows[i].value) <= reach ? 1 : 0;
      all += 1;
    }
  }
  EXPECT_GT(inside / all, 0.88);
  EXPECT_LT(inside / all, 0.96);
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

/// Each card's held-out rows are held against the other card's residuals alone: b is off by 0.2, within a's 0.3; a is
/// off by 0.3, beyond b's 0.2 x sqrt(1 + 0.15 / 1.1).
TEST(LeftOutCoverage, JudgesACardByTheOthers) {
  std::vector<BandResidual> rows = rows_of_card("gemm", "a", 0.3, 20);
  append(rows, rows_of_card("gemm", "b", 0.2, 20));
  const auto coverage = left_out_coverage(rows, rows, BandSection::near);
  ASSERT_EQ(coverage.size(), 1U);
  EXPECT_EQ(coverage[0].band_class, "gemm");
  EXPECT_EQ(coverage[0].rows, 40);
  EXPECT_EQ(coverage[0].inside, 20);
  EXPECT_NEAR(coverage[0].half_widths.front(), 0.2 * std::sqrt(1 + 0.15 / 1.1), 1e-3);
  EXPECT_TRUE(left_out_coverage(rows, rows, BandSection::far).empty());
}

/// Of another generation half of what a row errs by is a whole one's where the roofline takes three quarters of its time; its
/// band is narrowed again by as much.
TEST(LeftOutCoverage, ScalesAnotherGenerationByWhatTheRooflineLeaves) {
  const auto half_width = [](double value, double share, BandSection section) {
    std::vector<BandResidual> rows = rows_of_card("gemm", "a", value, 20);
    append(rows, rows_of_card("gemm", "b", value, 20));
    for (BandResidual& r : rows) {
      r.section = section;
      r.roofline_share = share;
    }
    return left_out_coverage(rows, rows, section).at(0).half_widths.front();
  };
  EXPECT_NEAR(half_width(0.1, 0.75, BandSection::far), half_width(0.2, 0, BandSection::far) / 2, 1e-4);
  EXPECT_NEAR(half_width(0.1, 0.75, BandSection::near), half_width(0.1, 0, BandSection::near), 1e-4);
}

/// What one card alone ran says nothing of a card that is left out where the scalars were fitted to those very rows;
/// where they were not, it has the band of what was never measured.
TEST(LeftOutCoverage, RowsThatScalarsWereFittedToAreLeftOutOfNothing) {
  std::vector<BandResidual> rows = rows_of_card("gemm", "a", 0.3, 20);
  append(rows, rows_of_card("gemm", "b", 0.2, 20));
  append(rows, rows_of_card("gemv", "a", 0.1, 20));
  std::vector<BandResidual> older = rows_of_card("gemm", "c", 0.3, 20);
  for (BandResidual& r : older) r.section = BandSection::far;
  append(rows, older);
  EXPECT_EQ(left_out_coverage(rows, rows, BandSection::near).size(), 2U);
  for (BandResidual& r : rows) r.in_sample = true;
  const auto coverage = left_out_coverage(rows, rows, BandSection::near);
  ASSERT_EQ(coverage.size(), 1U);
  EXPECT_EQ(coverage[0].band_class, "gemm");
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

TEST(ShapeGroup, LeavesOutWhatVariesFromCallToCall) {
  const auto group = [](const char* op, const char* shape) { return shape_group(parse_op(op, "bf16", shape)); };
  EXPECT_EQ(group("gemm", "M=7;N=64;K=128"), group("gemm", "M=4096;N=64;K=128"));
  EXPECT_NE(group("gemm", "M=7;N=64;K=128"), group("gemm", "M=7;N=64;K=256"));
  EXPECT_EQ(group("attention_decode", "B=1;Hq=32;Hkv=8;D=128;S=77"),
            group("attention_decode", "B=9;Hq=32;Hkv=8;D=128;S=4096"));
  EXPECT_NE(group("attention_decode", "B=1;Hq=32;Hkv=8;D=128;S=77"),
            group("attention_decode", "B=1;Hq=16;Hkv=8;D=128;S=77"));
}

TEST(BinomialRange, OfTen) {
  // P(X <= 5) = 0.0016, P(X <= 6) = 0.0128 of 10 at 0.9; all ten at once happen every third time
  EXPECT_EQ(binomial_range(10, 0.9, 0.99).least, 6);
  EXPECT_EQ(binomial_range(10, 0.9, 0.99).most, 10);
  const CountRange many = binomial_range(1000, 0.9, 0.99);  // normal: 900 +- 2.576 x 9.49
  EXPECT_NEAR(static_cast<double>(many.least), 875.6, 2);
  EXPECT_NEAR(static_cast<double>(many.most), 924.4, 2);
}

TEST(BandSources, AreChecked) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      parse_band_sources(text, "bands.json");
    } catch (const BadInput& error) {
      return error.what();
    }
    return "(accepted)";
  };
  EXPECT_THAT(refusal(R"({"sources": [{"gpu": "h200", "kernels": "own"}]})"), HasSubstr("either"));
  EXPECT_THAT(refusal(R"({"sources": [{"gpu": "h200", "kernels": "ideal", "rows": "x"}]})"),
              HasSubstr("own or library"));
  EXPECT_THAT(refusal(R"({"sources": [{"gpu": "h2000", "kernels": "own", "rows": "x"}]})"), HasSubstr("h2000"));
  EXPECT_THAT(refusal(R"({"sourcs": []})"), HasSubstr("sources"));
}

/// Rows that the engine itself made: residuals vanish and stay away when scalars are fitted again without a fold; a
/// card of the same capability that was 20 % slower everywhere has that as its transfer band, times sqrt(2) for one draw.
TEST(FitBands, ThroughTheEngine) {
  const Gpu h100 = load_gpu("h100_sxm"), h200 = load_gpu("h200_sxm");
  Calibration truth = load_calibration("h100_sxm", "");
  for (auto& [name, scalar] : truth.machine) scalar.source = "probe";
  for (auto& [family, scalars] : truth.families) {
    for (auto& [name, scalar] : scalars) scalar.source = "probe";
  }
  for (const char* name : {"fixed_s", "step_s"}) truth.families.at("library.gemm").at(name).source = "fitted on this";
  Calibration taken_over = truth;
  taken_over.inherited = true;
  const auto here = make_machine(h100, truth, MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  const auto there = make_machine(h200, taken_over, MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  std::vector<BandRow> rows;
  for (const std::int64_t m : {1, 16, 64, 512, 4096}) {
    for (const std::int64_t n : {512, 1024, 4096, 8192}) {
      for (const std::int64_t k : {1024, 4096}) {
        BandRow row;
        row.measured.what.op = Gemm{m, n, k, 1, Precision{}, false};
        row.measured.what.clock = ClockMode::burst;
        row.gpu = "h100_sxm";
        row.measured.time = predict(row.measured.what.op, here).time;
        rows.push_back(row);
        row.gpu = "h200_sxm";
        row.measured.time = 1.2 * predict(row.measured.what.op, there).time;
        rows.push_back(row);
      }
    }
  }
  const BandFit fit = fit_bands(h100, truth, {truth}, rows);
  EXPECT_EQ(fit.refitted, 2U);
  EXPECT_EQ(fit.residuals.size(), 80U);
  EXPECT_NEAR(fit.calibration.bands.at("library.all.any").low, 0, 0.01);
  EXPECT_NEAR(fit.calibration.bands.at("library.all.any").high, 0, 0.01);
  EXPECT_NEAR(fit.calibration.transfer_bands.at("near.library.all.any").low, -std::sqrt(2) * std::log(1.2), 2e-4);
  EXPECT_NEAR(fit.calibration.transfer_bands.at("near.library.all.any").high, std::sqrt(2) * std::log(1.2), 2e-4);
  EXPECT_EQ(fit.calibration.families.at("library.gemm").at("fixed_s").value,
            truth.families.at("library.gemm").at("fixed_s").value);
  const Calibration again = parse_calibration(to_json(fit.calibration), "written");
  EXPECT_EQ(again.transfer_bands.size(), fit.calibration.transfer_bands.size());
  EXPECT_EQ(again.band_correlation.size(), fit.calibration.band_correlation.size());
  EXPECT_THROW(fit_bands(load_gpu("a100_sxm"), load_calibration("a100_sxm", ""), {truth}, rows), BadInput);
}

/// All rows are of one N and K, so that one fold would take them all: their lengths are dealt then.
TEST(FitBands, RowsOfOneGroupOfShapesAreDealtByShape) {
  const Gpu h100 = load_gpu("h100_sxm");
  Calibration truth = load_calibration("h100_sxm", "");
  for (auto& [family, scalars] : truth.families) {
    for (auto& [name, scalar] : scalars) scalar.source = "probe";
  }
  for (auto& [name, scalar] : truth.machine) scalar.source = "probe";
  truth.families.at("library.gemm").at("fixed_s").source = "fitted on this";
  const auto here = make_machine(h100, truth, MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  std::vector<BandRow> rows;
  const auto add = [&](std::int64_t m) {
    BandRow row;
    row.measured.what.op = Gemm{m, 4096, 4096, 1, Precision{}, false};
    row.measured.what.clock = ClockMode::burst;
    row.gpu = "h100_sxm";
    row.measured.time = predict(row.measured.what.op, here).time;
    rows.push_back(row);
  };
  for (std::int64_t m = 128; m <= 2048; m += 128) add(m);
  EXPECT_EQ(fit_bands(h100, truth, {truth}, rows).refitted, 1U);
  rows.clear();
  for (int i = 0; i < 16; ++i) add(128);  // one shape: nothing to be held against
  EXPECT_EQ(fit_bands(h100, truth, {truth}, rows).refitted, 0U);
}

}  // namespace
}  // namespace plumbline::fit_bands_test
