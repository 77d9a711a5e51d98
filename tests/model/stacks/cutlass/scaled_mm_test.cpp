// vLLM's products of 8-bit floats, by hand on the toy GPU: tiles, what a cluster shares, and the rounding before them.
#include "model/stacks/cutlass/scaled_mm.hpp"

#include <gtest/gtest.h>

#include "model/stacks/common/gemm_cache.hpp"
#include "model/stacks/cutlass/scaled_tiles.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline::scaled_mm_test {
namespace {

using namespace testing_support;

GemmTask task_of(double m, double n, double k) {
  GemmTask t;
  t.math = DType::fp8;
  t.m = m;
  t.n = n;
  t.k = k;
  t.input_bytes = t.weight_bytes = 1;
  t.tensor_flop_per_clk = 2000;
  return t;
}

class ToyScaledProducts : public ::testing::Test {
 protected:
  GemmChoice plan(const GemmTask& task) { return cutlass::plan_scaled(task, machine_.rates(), family_, cache_); }

  Machine machine_ = toy_machine();
  FamilyScalars family_;
  GemmCache cache_;
};

/// Weights on the row side, 64 of them by 64 rows of activations, 256 deep: 40 tiles of two steps, each of 2 x 16 KiB.
TEST_F(ToyScaledProducts, FewRowsAreOnTheColumnsSide) {
  const Demand d = plan(task_of(64, 2560, 512)).main;
  EXPECT_EQ(d.plan.ctas, 40);
  EXPECT_EQ(d.plan.steps, 2);
  EXPECT_EQ(d.plan.cluster, 1);
  EXPECT_DOUBLE_EQ(d.l2.in(units::B), 2 * 64 * 256);
  EXPECT_DOUBLE_EQ(d.delivered.in(units::B), 0);
  EXPECT_DOUBLE_EQ(d.dram_read.in(units::B), (64 + 2560) * 512);
  EXPECT_DOUBLE_EQ(d.dram_write.in(units::B), 64 * 2560 * 2);
}

/// Two tiles of rows are a cluster, whose weights come once: 16 KiB of rows and half of 16 KiB of weights a CTA.
TEST_F(ToyScaledProducts, TilesOfAClusterShareTheirWeights) {
  const GemmChoice choice = plan(task_of(256, 256, 512));
  const Demand& d = choice.main;
  EXPECT_EQ(choice.plan.cluster_m, 2);
  EXPECT_EQ(choice.plan.cluster_n, 1);
  EXPECT_EQ(d.plan.ctas, 4);
  EXPECT_EQ(d.plan.cluster, 2);
  EXPECT_DOUBLE_EQ(d.l2.in(units::B), 128 * 128 + 0.5 * 128 * 128);
  EXPECT_DOUBLE_EQ(d.delivered.in(units::B), 0.5 * 128 * 128);
}

/// Three tiles of rows fill two clusters: one of the four CTAs multiplies nothing.
TEST_F(ToyScaledProducts, ClustersAreWhole) { EXPECT_EQ(plan(task_of(384, 128, 512)).main.plan.ctas, 4); }

/// On tensor memory two SMs multiply a tile of 128 x 128 as one, 64 rows each and half of the 128 columns fetched by each: 65 rows
/// leave neither SM without work. Tiles of weights are pairs' too where there are few rows.
TEST(ScaledProductsOnTensorMemory, TwoSmsShareATile) {
  Gpu gpu = toy_gpu();
  gpu.sm.matrix_unit = MatrixUnit::tcgen05;
  const Machine machine = make_machine(gpu, toy_calibration(), {});
  FamilyScalars family;
  GemmCache cache;
  const Demand d = cutlass::plan_scaled(task_of(65, 256, 512), machine.rates(), family, cache).main;
  EXPECT_EQ(d.plan.ctas, 4);
  EXPECT_DOUBLE_EQ(d.l2.in(units::B), 64 * 128 + 0.5 * 128 * 128);
  const Demand large = cutlass::plan_scaled(task_of(512, 256, 512), machine.rates(), family, cache).main;
  EXPECT_EQ(large.plan.ctas, 8);
  EXPECT_DOUBLE_EQ(large.l2.in(units::B), 0.5 * 128 * 128 + 0.5 * 128 * 128);
  const Demand few = cutlass::plan_scaled(task_of(16, 512, 512), machine.rates(), family, cache).main;
  EXPECT_EQ(few.plan.ctas, 8);
  EXPECT_DOUBLE_EQ(few.l2.in(units::B), 64 * 128 + 0.25 * 32 * 128)
      << "four SMs, two pairs, have the activations in common";
}

/// Narrow products of few rows share activations among two or four tiles of weights.
TEST_F(ToyScaledProducts, NarrowOnesOfFewRowsAreClusters) {
  const auto columns = [&](double m, double n) {
    return cutlass::scaled_tile(task_of(m, n, 512), machine_.rates()).cluster_cols;
  };
  EXPECT_EQ(columns(16, 1280), 2);
  EXPECT_EQ(columns(17, 1280), 4);
  EXPECT_EQ(columns(16, 1296), 1);
}

/// Rows of 4096 in two turns: 100 clocks each and 50 at the start; 3 bytes a value by way of L2, which keeps few rows.
TEST_F(ToyScaledProducts, RoundingGoesByTurnsOfARow) {
  family_.step_clk = 100;
  family_.start_clk = 50;
  const auto round = [&](double rows) {
    return cutlass::round_given(rows, 4096, DType::bf16, 0.25, family_, machine_.rates());
  };
  const Demand small = round(100), large = round(100000);
  EXPECT_EQ(small.plan.ctas, 100);
  EXPECT_EQ(small.plan.ctas_per_sm, 8);
  EXPECT_EQ(small.plan.steps, 2);
  EXPECT_DOUBLE_EQ(small.issue_clk, 125);
  EXPECT_DOUBLE_EQ(small.l2.in(units::B), 2048 * 3);
  EXPECT_EQ(small.dram_read, Bytes{});
  EXPECT_EQ(small.dram_write, Bytes{});
  EXPECT_DOUBLE_EQ(large.dram_read.in(units::B), 0.75 * 100000 * 4096 * 2) << "a quarter is held";
  EXPECT_DOUBLE_EQ(large.dram_write.in(units::B), 100000.0 * 4096);
}

}  // namespace
}  // namespace plumbline::scaled_mm_test
