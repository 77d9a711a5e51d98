// Which clusters cuBLAS's kernels of any tile take, by hand, against its heuristic's answers (data/measurements/h200/pytorch:
// choices.csv.gz and choices_third.csv.gz, training shapes).
#include <gtest/gtest.h>

#include "model/stacks/cublas/clusters.hpp"

namespace plumbline::cublas_clusters_test {
namespace {

constexpr double kSms = 132;

void expect_cluster(const cublas::TilesToShare& tiles, double along_m, double along_n) {
  const cublas::ClusterShape shape = cublas::cluster_of(tiles, kSms);
  EXPECT_EQ(shape.rows, along_m) << tiles.rows << " x " << tiles.cols;
  EXPECT_EQ(shape.cols, along_n) << tiles.rows << " x " << tiles.cols;
}

TEST(CublasClusters, AreAsLargeAsOneTurnOfThemHolds) {
  expect_cluster({1, 80, 1, 64, 64}, 1, 4);
  expect_cluster({2, 56, 1, 56, 64}, 2, 4);
  expect_cluster({4, 30, 1, 48, 128}, 4, 2);
  expect_cluster({3, 40, 1, 48, 64}, 1, 4);  // 120 tiles: padded by a fourth row they were 160
  expect_cluster({8, 15, 1, 128, 128}, 4, 1);
}

TEST(CublasClusters, FromAHundredAndTwentyOneTilesOnArePairs) {
  expect_cluster({3, 42, 1, 64, 128}, 1, 2);  // an odd number along M: the weights, which are more, are not shared
  expect_cluster({6, 22, 1, 64, 128}, 2, 1);
  expect_cluster({6, 22, 1, 144, 64}, 1, 2);
  expect_cluster({2, 63, 1, 144, 64}, 2, 1);  // 64 columns would be padding
}

TEST(CublasClusters, PaddingTakesNoFurtherTurn) {
  expect_cluster({7, 37, 1, 88, 256}, 1, 1);   // 259 tiles are two turns, 266 three
  expect_cluster({8, 30, 1, 128, 128}, 4, 2);  // 240 tiles are two turns of 120
}

TEST(CublasClusters, PartsOfKCountAsTiles) {
  expect_cluster({1, 40, 3, 40, 64}, 1, 4);
  expect_cluster({1, 44, 3, 40, 64}, 1, 2);
}

}  // namespace
}  // namespace plumbline::cublas_clusters_test
