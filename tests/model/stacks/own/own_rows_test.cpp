// Row-wise kernels of ours: what ragged ends take, by hand.
#include <gtest/gtest.h>

#include "model/predict.hpp"
#include "model/stacks/own/row_kernels.hpp"
#include "tests/support/own_h200.hpp"

namespace plumbline::own_rows_test {
namespace {

using namespace testing_support;

/// cumsum: what the last of a tile's eight warps has behind the end, element by element; a lane has 96 of bf16, 48 of
/// fp32.
TEST(OwnRows, LastTilesOfScansByHand) {
  const auto beside = [](std::int64_t n, DType type) {
    return row_kernel_of(Scan{ScanKind::cumsum, n, type}).beside_clk;
  };
  EXPECT_DOUBLE_EQ(beside(24576, DType::bf16), 0);
  EXPECT_DOUBLE_EQ(beside(20000, DType::bf16), 27 * 96);
  EXPECT_DOUBLE_EQ(beside(24576 + 24576 - 320, DType::bf16), 27 * 10);
  EXPECT_DOUBLE_EQ(beside(6000, DType::fp32), 13.5 * 48);
}

/// They go on beside the launch's bytes, so that a long scan does not see them.
TEST(OwnRows, LongScansHideTheirLastTile) {
  const auto time = [](std::int64_t n) { return predict(Op(Scan{ScanKind::cumsum, n, DType::bf16}), own_h200()).time; };
  EXPECT_GT(time(20000) - time(24576), 1.0 * units::us);
  EXPECT_LT(time(1000 * 24576 + 1) - time(1000 * 24576), 0.1 * units::us);
}

/// Rows that are not whole vectors: each sector of a result comes to L2 eight times.
TEST(OwnRows, RaggedRowsOfTheChainStoreByElements) {
  for (const RowwiseKind kind : {RowwiseKind::dropout, RowwiseKind::scale_mask_softmax_dropout}) {
    EXPECT_DOUBLE_EQ(row_kernel_of(Rowwise{kind, 5000, 704}).stores, 1);
    EXPECT_DOUBLE_EQ(row_kernel_of(Rowwise{kind, 5000, 701}).stores, 8);
    const auto time = [&](std::int64_t cols) { return predict(Op(Rowwise{kind, 5000, cols}), own_h200()).time; };
    EXPECT_GT(time(701), 1.2 * time(704));
  }
}

}  // namespace
}  // namespace plumbline::own_rows_test
