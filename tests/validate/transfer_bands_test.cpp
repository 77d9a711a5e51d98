#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/band_residuals.hpp"
#include "validate/fit/fit_bands.hpp"

namespace plumbline::transfer_bands_test {
namespace {

using band_residuals::append;
using band_residuals::rows_of_card;

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

/// A card's 1000 rows that reach 0.1 say as much as another's 19 that reach 0.4: the class is 0.2 of two cards (the
/// mean of logarithms), and so are its kind, which has no other class and is a tenth of a card, and all kernels: 0.05 of
/// the error is drawn anew, 0.2 x sqrt(1 + 0.05/2.1). What is of the kind and was measured on no card of the generation has the
/// kind's word alone, and all of its error is: 0.2 x sqrt(2).
TEST(TransferBands, CardsAreCountedAndNotRows) {
  std::vector<BandResidual> rows = rows_of_card("gemm", "a", 0.1, 1000);
  append(rows, rows_of_card("gemm", "b", 0.4, 19));
  const auto bands = bands_of(rows, KernelSet::library, BandSection::near);
  EXPECT_NEAR(bands.at("library.gemm.large").high, 0.2 * std::sqrt(1 + 0.05 / 2.1), 2e-4);
  EXPECT_NEAR(bands.at("library.gemm.large").low, -0.2 * std::sqrt(1 + 0.05 / 2.1), 2e-4);
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
/// what went over, and what did not is a further draw of it as well as of a card, 0.3 x sqrt(2 x 1.2).
TEST(TransferBands, WhatNeverWentOverIsAFurtherDrawOfItsKind) {
  std::vector<BandResidual> rows = rows_of_card("gemm", "a", 0.3, 40);
  std::vector<BandResidual> fitted = rows_of_card("gemv", "a", 0.1, 40);
  for (BandResidual& r : fitted) r.in_sample = true;
  append(rows, fitted);
  for (BandResidual& r : rows) r.section = BandSection::far;
  const auto bands = bands_of(rows, KernelSet::library, BandSection::far);
  EXPECT_NEAR(bands.at("library.matrix.large").high, 0.3 * std::sqrt(2.0), 2e-4);
  EXPECT_NEAR(bands.at("library.gemv.large").high, 0.3 * std::sqrt(2.4), 3e-4);
  EXPECT_EQ(bands.at("library.gemv.large").pooled, "library.matrix.large");
  for (BandResidual& r : rows) r.in_sample = false;
  EXPECT_LT(bands_of(rows, KernelSet::library, BandSection::far).at("library.gemv.large").high, 0.3);
}

/// One decode of one card reaches 0.1, another 0.4, so that their kind reaches 0.2, which counts as a tenth of a card, and
/// all kernels, 0.2 as well, as 0.15: a fifth of the way from either to it, each with a further draw's sqrt(1 + 0.05 / 1.1).
TEST(TransferBands, OnOneChipAKindAndAllKernelsCountAsAQuarterOfACard) {
  std::vector<BandResidual> rows = rows_of_card("flash_decode", "a", 0.1, 40);
  append(rows, rows_of_card("attention_decode", "a", 0.4, 40));
  const auto bands = bands_of(rows, KernelSet::library, BandSection::near);
  EXPECT_NEAR(bands.at("library.flash_decode.large").high, 0.1 * std::pow(2, 0.2) * std::sqrt(1 + 0.05 / 1.1), 2e-4);
  EXPECT_NEAR(bands.at("library.attention_decode.large").high, 0.4 / std::pow(2, 0.2) * std::sqrt(1 + 0.05 / 1.1),
              2e-4);
}

/// Rows that the scalars were fitted to reach less far than the next card's will: 1.22 times as far is meant; half of
/// them, the root of it.
TEST(TransferBands, RowsThatScalarsWereFittedToReachFurtherUnseen) {
  std::vector<BandResidual> rows = rows_of_card("gemm", "a", 0.1, 40);
  for (BandResidual& r : rows) r.in_sample = true;
  const auto high = [&] { return bands_of(rows, KernelSet::library, BandSection::near).at("library.gemm.large").high; };
  EXPECT_NEAR(high(), 0.1 * 1.22 * std::sqrt(1 + 0.05 / 1.1), 2e-4);
  for (std::size_t i = 0; i < rows.size(); i += 2) rows[i].in_sample = false;
  EXPECT_NEAR(high(), 0.1 * std::sqrt(1.22) * std::sqrt(1 + 0.05 / 1.1), 2e-4);
}

/// No family is fitted to decode of few keys: that the scalars are of the same card's other rows says nothing of it.
TEST(TransferBands, RowsOfAnUnfittedClassAreInNoSample) {
  std::vector<BandResidual> rows = rows_of_card("flash_decode_short", "a", 0.1, 40);
  for (BandResidual& r : rows) r.in_sample = true;
  EXPECT_NEAR(bands_of(rows, KernelSet::library, BandSection::near).at("library.flash_decode_short.large").high,
              0.1 * std::sqrt(1 + 0.05 / 1.1), 2e-4);
}

/// One row is a nineteenth of a card: its class is what its kind is to two thirds, and as uncertain.
TEST(TransferBands, FewRowsSayLittle) {
  std::vector<BandResidual> rows = rows_of_card("flash_decode", "a", 0.2, 40);
  append(rows, rows_of_card("attention_decode", "a", 0.2, 1));
  const Band band = bands_of(rows, KernelSet::library, BandSection::near).at("library.attention_decode.large");
  EXPECT_NEAR(band.high, 0.2 * std::sqrt(1 + 0.05 / (0.1 + 1.0 / 19)), 2e-4);
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

/// Each card's held-out rows are held against the other card's residuals alone: b is off by 0.2, within a's 0.3; a is
/// off by 0.3, beyond b's 0.2 x sqrt(1 + 0.05 / 1.1).
TEST(LeftOutCoverage, JudgesACardByTheOthers) {
  std::vector<BandResidual> rows = rows_of_card("gemm", "a", 0.3, 20);
  append(rows, rows_of_card("gemm", "b", 0.2, 20));
  const auto coverage = left_out_coverage(rows, rows, BandSection::near);
  ASSERT_EQ(coverage.size(), 1U);
  EXPECT_EQ(coverage[0].band_class, "gemm");
  EXPECT_EQ(coverage[0].rows, 40);
  EXPECT_EQ(coverage[0].inside, 20);
  EXPECT_NEAR(coverage[0].half_widths.front(), 0.2 * std::sqrt(1 + 0.05 / 1.1), 1e-3);
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

}  // namespace
}  // namespace plumbline::transfer_bands_test
