// The CPU references that kernels are checked against, held against numbers worked out by hand. No GPU is needed.
#include "kernels/reference/reference.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "arch/error.hpp"

namespace plumbline {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

Values run(RowwiseKind kind, std::int64_t rows, std::int64_t cols, const RowwiseInputs& in) {
  return reference_rowwise({kind, rows, cols}, in).y;
}

TEST(Reference, RoundsToFp16) {
  EXPECT_EQ(round_to_fp16(1.0), 1.0);
  EXPECT_EQ(round_to_fp16(1.0 + 0x1p-11), 1.0);               // a tie, to even
  EXPECT_EQ(round_to_fp16(1.0 + 3 * 0x1p-11), 1.0 + 0x1p-9);  // the next one, to even too
  EXPECT_EQ(round_to_fp16(-0.1), -0x1.998p-4);
  EXPECT_EQ(round_to_fp16(0x1p-24), 0x1p-24);  // the smallest number
  EXPECT_EQ(round_to_fp16(0x1p-25), 0.0);
  EXPECT_EQ(round_to_fp16(65519.9), 65504.0);
  EXPECT_TRUE(std::isinf(round_to_fp16(65520.0)));
}

TEST(Reference, ReadsFp16) {
  EXPECT_EQ(fp16_value(0x3c00), 1.0);
  EXPECT_EQ(fp16_value(0xc000), -2.0);
  EXPECT_EQ(fp16_value(0x0001), 0x1p-24);
  EXPECT_EQ(fp16_value(0x7bff), 65504.0);
  EXPECT_TRUE(std::isinf(fp16_value(0x7c00)));
  EXPECT_TRUE(std::isnan(fp16_value(0x7e00)));
  for (unsigned bits = 0; bits < 0x7c00; ++bits) {
    const double value = fp16_value(static_cast<std::uint16_t>(bits));
    EXPECT_EQ(round_to_fp16(value), value) << bits;
  }
}

TEST(Bf16, KeepsEightBitsAndRoundsTiesToEven) {
  EXPECT_EQ(round_to_bf16(1.0), 1.0);
  EXPECT_EQ(round_to_bf16(1.0 + 1.0 / 128), 1.0 + 1.0 / 128);
  EXPECT_EQ(round_to_bf16(1.0 + 1.0 / 256), 1.0);              // halfway, down to the even one
  EXPECT_EQ(round_to_bf16(1.0 + 3.0 / 256), 1.0 + 4.0 / 256);  // halfway, up to the even one
  EXPECT_EQ(round_to_bf16(-1.0 - 3.0 / 512), -1.0 - 1.0 / 128);
  EXPECT_TRUE(std::isnan(round_to_bf16(std::nan(""))));
}

TEST(Reference, NormalisesARow) {
  // mean 3, deviations -2 0 2, variance 8/3
  const double scale = 1.0 / std::sqrt(8.0 / 3.0 + 1e-5);
  EXPECT_THAT(run(RowwiseKind::layernorm, 1, 3, {{1, 3, 5}, {}, {1, 1, 2}, {0, 7, 0}}),
              Pointwise(DoubleNear(1e-9), Values{-2 * scale, 7, 4 * scale}));
  // mean square 12.5
  const double root = 1.0 / std::sqrt(12.5 + 1e-5);
  EXPECT_THAT(run(RowwiseKind::rmsnorm, 1, 2, {{3, 4}, {}, {1, 10}, {}}),
              Pointwise(DoubleNear(1e-9), Values{3 * root, 40 * root}));
}

TEST(Reference, AddsTheResidualAsItIsStored) {
  const RowwiseResult r = reference_rowwise({RowwiseKind::rmsnorm, 1, 2, true}, {{1, 2}, {2, 1.0 / 512}, {1, 1}, {}});
  EXPECT_THAT(r.sum, ElementsAre(3, 2));  // 2 + 1/512 needs more than 8 bits
  EXPECT_NEAR(r.y[0], 3.0 / std::sqrt(6.5 + 1e-5), 1e-9);
}

TEST(Reference, SoftmaxSharesAreExactForLogarithms) {
  const double ln3 = std::log(3.0);
  EXPECT_THAT(run(RowwiseKind::softmax, 2, 2, {{0, ln3, 1000 + ln3, 1000}, {}, {}, {}}),
              Pointwise(DoubleNear(1e-12), Values{0.25, 0.75, 0.75, 0.25}));
}

TEST(Reference, ReducesRows) {
  const RowwiseInputs in{{1, 5, 5, -3, -2, -9}, {}, {}, {}};
  EXPECT_THAT(run(RowwiseKind::sum_rows, 2, 3, in), ElementsAre(11, -14));
  EXPECT_THAT(run(RowwiseKind::argmax, 2, 3, in), ElementsAre(1, 1));  // the first of equals
}

TEST(Reference, ActivationsMatchTheirDefinitions) {
  const double third = std::log(2.0);  // sigmoid(ln 2) = 2/3
  EXPECT_NEAR(run(RowwiseKind::silu, 1, 1, {{third}, {}, {}, {}})[0], third * 2 / 3, 1e-12);
  EXPECT_NEAR(run(RowwiseKind::gelu, 1, 1, {{1}, {}, {}, {}})[0], 0.8413447460685429, 1e-12);  // normal CDF at 1
  // two rows of [gate | up], two columns wide
  EXPECT_THAT(run(RowwiseKind::swiglu, 2, 2, {{third, 0, 3, 5, 0, third, 7, 6}, {}, {}, {}}),
              Pointwise(DoubleNear(1e-12), Values{2 * third, 0, 0, 4 * third}));
}

TEST(Reference, MovesElements) {
  EXPECT_THAT(run(RowwiseKind::transpose_copy, 2, 3, {{1, 2, 3, 4, 5, 6}, {}, {}, {}}), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(reference_embedding({3, 2}, {1, 2, 3, 4, 5, 6}, {2, 0, 2}), ElementsAre(5, 6, 1, 2, 5, 6));
  EXPECT_EQ(reference_sum_all({1, 2, -4}), -1);
}

TEST(Reference, TopKTakesTheLowerIndexOfEquals) {
  const TopKResult top = reference_topk({1, 5, 3}, {1, 7, 7, 9, 7});
  EXPECT_THAT(top.values, ElementsAre(9, 7, 7));
  EXPECT_THAT(top.indices, ElementsAre(3, 1, 2));
  const TopKResult shares = reference_softmax_topk({1, 2, 1}, {0, std::log(3.0)});
  EXPECT_THAT(shares.values, ElementsAre(DoubleNear(0.75, 1e-12)));
  EXPECT_THAT(shares.indices, ElementsAre(1));
}

TEST(Reference, CumsumAddsUp) { EXPECT_THAT(reference_cumsum({1, 2, -4}), ElementsAre(1, 3, -1)); }

/// The largest number, the smallest, a step of the binade [1, 2), NaN.
TEST(Reference, E4m3) {
  EXPECT_EQ(e4m3_value(0x7e), 448);
  EXPECT_EQ(e4m3_value(0x81), -std::ldexp(1.0, -9));
  EXPECT_EQ(e4m3_value(0x39) - e4m3_value(0x38), e4m3_spacing(1.0));
  EXPECT_EQ(e4m3_spacing(0.0), std::ldexp(1.0, -9));
  EXPECT_TRUE(std::isnan(e4m3_value(0x7f)));
  const RowwiseResult q =
      reference_rowwise({RowwiseKind::quantize, 1, 2, false, DType::bf16, DType::fp8}, {{-2, 1}, {}, {}, {}});
  EXPECT_THAT(q.y, ElementsAre(-448, 224));
  EXPECT_THAT(q.scale, ElementsAre(2.0 / 448));
}

TEST(Reference, RopeTurnsPairsHalfAHeadApart) {
  const auto quarter = static_cast<float>(std::numbers::pi / 2);  // position 1: pair 0 by a quarter turn, pair 1 not
  EXPECT_THAT(reference_rope({2, 1, 4}, {1, 2, 3, 4, 1, 2, 3, 4}, {1, 0}, {quarter, 0}),
              Pointwise(DoubleNear(1e-6), Values{-3, 2, 1, 4, 1, 2, 3, 4}));
}

TEST(Reference, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(run(RowwiseKind::adamw, 1, 1, {{1}, {}, {}, {}}), NotModelled);
}

}  // namespace
}  // namespace plumbline
