// The CPU reference of the training attention chain: known random numbers, numbers worked out by hand, derivatives.
#include "kernels/reference/reference_chain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>

namespace plumbline {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Pointwise;
using K = RowwiseKind;

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// Published answers: the file kat_vectors of the generator's authors (Random123).
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_THAT(reference_philox({0, 0, 0, 0}, {0, 0}, 10), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_THAT(reference_philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}, 10),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(reference_philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, 10),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
  EXPECT_THAT(reference_philox({0, 0, 0, 0}, {0, 0}, 7), ElementsAre(0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48));
}

TEST(Dropout, DropsTheShareItIsAskedTo) {
  for (const double drop : {0.0, 0.1, 0.5, 0.9}) {
    const ChainSettings c{1, drop, 77, 3};
    const std::int64_t rows = 400, cols = 501;
    double kept = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t col = 0; col < cols; ++col) kept += reference_keeps(c, r, col, cols) ? 1 : 0;
    }
    const double n = static_cast<double>(rows * cols), deviation = std::sqrt(drop * (1 - drop) / n);
    EXPECT_NEAR(kept / n, 1 - drop, 5 * deviation + 1.0 / 65536);
    EXPECT_NEAR(kept / n * kept_scale(drop), 1, 10 * deviation / (1 - drop) + 1e-12);  // the mean stays
  }
  const ChainSettings first{1, 0.5, 1, 0}, other_seed{1, 0.5, 2, 0}, other_offset{1, 0.5, 1, 1};
  int seeds = 0, offsets = 0;
  for (std::int64_t col = 0; col < 1000; ++col) {
    seeds += reference_keeps(first, 0, col, 1000) == reference_keeps(other_seed, 0, col, 1000) ? 1 : 0;
    offsets += reference_keeps(first, 0, col, 1000) == reference_keeps(other_offset, 0, col, 1000) ? 1 : 0;
  }
  EXPECT_NEAR(seeds, 500, 80);
  EXPECT_NEAR(offsets, 500, 80);
}

TEST(AttentionChain, ForwardByHand) {
  const double ln3 = std::log(3.0);
  ChainInputs in;
  in.x = {0, 2 * ln3, 5, 2 * ln3, 0, 5};
  in.mask = {0, 0, kNever};
  const ChainResult r = reference_attention_chain({K::scale_mask_softmax_dropout, 2, 3}, {0.5F, 0, 0, 0}, in);
  EXPECT_THAT(r.y, Pointwise(DoubleNear(1e-12), Values{0.25, 0.75, 0, 0.75, 0.25, 0}));
  EXPECT_THAT(r.log_sum, Pointwise(DoubleNear(1e-12), Values{std::log(4.0), std::log(4.0)}));
}

TEST(AttentionChain, ARowWithoutKeysHasNoProbabilities) {
  ChainInputs in;
  in.x = {1, 2};
  in.dy = {1, 1};
  in.mask = {kNever, kNever};
  const ChainSettings c{1, 0.1, 0, 0};
  const ChainResult forward = reference_attention_chain({K::scale_mask_softmax_dropout, 1, 2}, c, in);
  EXPECT_THAT(forward.y, Each(0.0));
  EXPECT_EQ(forward.log_sum[0], kNever);
  EXPECT_THAT(reference_attention_chain({K::scale_mask_softmax_dropout_backward, 1, 2}, c, in).y, Each(0.0));
}

/// The fused operators are the separate ones in a row.
TEST(AttentionChain, FusedEqualsSeparate) {
  const std::int64_t rows = 3, cols = 11;
  const ChainSettings c{0.25F, 0.5, 5, 6};
  ChainInputs in;
  for (int i = 0; i < rows * cols; ++i) {
    in.x.push_back(std::sin(i) * 4);
    in.dy.push_back(std::cos(3 * i));
  }
  for (int i = 0; i < cols; ++i) in.mask.push_back(i % 4 == 0 ? -2 : 0.5);
  const auto run = [&](K kind, const ChainInputs& with) {
    return reference_attention_chain({kind, rows, cols}, c, with);
  };
  const Values scaled = run(K::scale, in).y, masked = run(K::mask, {scaled, {}, in.mask, {}, {}}).y;
  const Values p = reference_rowwise({K::softmax, rows, cols}, {masked, {}, {}, {}}).y;
  const ChainResult dropped = run(K::dropout, {p, {}, {}, {}, {}});
  EXPECT_THAT(run(K::scale_mask_softmax_dropout, in).y, Pointwise(DoubleNear(1e-12), dropped.y));

  const Values dp = run(K::dropout_backward, {{}, in.dy, {}, dropped.keep_mask, {}}).y;
  const Values ds = run(K::softmax_backward, {p, dp, {}, {}, {}}).y;
  const Values dx = run(K::scale, {ds, {}, {}, {}, {}}).y;
  EXPECT_THAT(run(K::scale_mask_softmax_dropout_backward, in).y, Pointwise(DoubleNear(1e-12), dx));
}

TEST(AttentionChain, BackwardIsTheDerivative) {
  const std::int64_t rows = 2, cols = 9;
  const ChainSettings c{0.3F, 0.5, 9, 1};
  ChainInputs in;
  for (int i = 0; i < rows * cols; ++i) {
    in.x.push_back(std::sin(2 * i + 1) * 3);
    in.dy.push_back(std::cos(i));
  }
  in.mask.assign(static_cast<std::size_t>(cols), 0);
  const auto weighted = [&](const ChainInputs& with) {
    const Values y = reference_attention_chain({K::scale_mask_softmax_dropout, rows, cols}, c, with).y;
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * in.dy[i];
    return sum;
  };
  const Values dx = reference_attention_chain({K::scale_mask_softmax_dropout_backward, rows, cols}, c, in).y;
  for (std::size_t i = 0; i < dx.size(); ++i) {
    constexpr double kBy = 1e-5;
    ChainInputs above = in, below = in;
    above.x[i] += kBy;
    below.x[i] -= kBy;
    EXPECT_NEAR(dx[i], (weighted(above) - weighted(below)) / (2 * kBy), 1e-8);
  }
}

/// sum(dy y) of the forward norm, by central differences, is what the backward norm gives; the residual is added.
TEST(RmsnormBackward, IsTheDerivativeOfTheNorm) {
  constexpr std::int64_t kRows = 2, kCols = 5;
  ChainInputs in;
  in.mask = {1, -2, 0.5, 3, 1.5};
  for (int i = 0; i < kRows * kCols; ++i) {
    in.x.push_back(std::sin(1.0 + i));
    in.dy.push_back(std::cos(2.0 * i));
    in.residual.push_back(i);
  }
  const auto weighted = [&](const Values& x) {
    const Values y = reference_rowwise({K::rmsnorm, kRows, kCols}, {x, {}, in.mask, {}}).y;
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += in.dy[i] * y[i];
    return sum;
  };
  const Values got = reference_attention_chain({K::rmsnorm_backward, kRows, kCols}, {}, in).y;
  const Values beside = reference_attention_chain({K::rmsnorm_backward, kRows, kCols, true}, {}, in).y;
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < in.x.size(); ++i) {
    Values above = in.x, below = in.x;
    above[i] += kStep;
    below[i] -= kStep;
    EXPECT_NEAR(got[i], (weighted(above) - weighted(below)) / (2 * kStep), 1e-8) << i;
    EXPECT_NEAR(beside[i], got[i] + in.residual[i], 1e-12);
  }
}

}  // namespace
}  // namespace plumbline
