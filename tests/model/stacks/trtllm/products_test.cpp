// TensorRT-LLM's products of few rows of 8-bit floats on ordinary lanes, by hand on a toy GPU that multiplies by
// mma.sync.
#include <gtest/gtest.h>

#include "tests/support/toy_machine.hpp"

namespace plumbline::lane_products_test {
namespace {

using namespace testing_support;

Gpu toy_of_mma_sync() {
  Gpu gpu = toy_gpu();
  gpu.sm.matrix_unit = MatrixUnit::mma_sync;
  gpu.sm.async_copy = AsyncCopy::cp_async;
  return gpu;
}

Gemm product(std::int64_t m, std::int64_t n, std::int64_t k) {
  Gemm s;
  s.m = m;
  s.n = n;
  s.k = k;
  s.precision = *parse_precision("fp8");
  return s;
}

OpPrediction on(const Machine& machine, const Op& op) {
  Predictor predictor;
  OpPrediction out;
  predictor.predict(op, machine, out, {});
  return out;
}

/// A CTA of 128 threads has two columns and, at a time, 16 values of K a thread: one turn of 2048. A thread makes fp32
/// of 16 values of two columns and eight rows in 1.5 instructions each, multiplies 16 x 2 x 8 times, and has 20 beside;
/// four warps of these issue four instructions a clock. Sixteen CTAs of an SM have x in common.
TEST(LaneProducts, AreTwoColumnsACta) {
  const OpPrediction p = on(toy_machine(toy_of_mma_sync()), product(8, 64, 2048));
  EXPECT_EQ(p.provider, "trtllm_products");
  ASSERT_EQ(p.launch_count, 1);
  const Demand& d = p.launches[0].demand;
  EXPECT_EQ(d.plan.ctas, 32);
  EXPECT_EQ(d.plan.threads, 128);
  EXPECT_EQ(d.plan.ctas_per_sm, 16);
  EXPECT_EQ(d.plan.steps, 1);
  EXPECT_DOUBLE_EQ(d.issue_clk, 16 * (1.5 * 10 + 16) + 20);
  EXPECT_DOUBLE_EQ(d.l2.in(units::B), (2 + 8.0 / 16) * 2048);
  EXPECT_DOUBLE_EQ(d.in_flight.in(units::B), 2 * 2048);
  EXPECT_DOUBLE_EQ(d.dram_read.in(units::B), (64 + 8) * 2048);
  EXPECT_DOUBLE_EQ(d.dram_write.in(units::B), 8 * 64 * 2);
}

/// 3072 values are a turn and a half: two steps of three quarters each.
TEST(LaneProducts, APartOfATurnIsSpreadOverTheSteps) {
  const Machine machine = toy_machine(toy_of_mma_sync());
  const Demand whole = on(machine, product(8, 64, 2048)).launches[0].demand;
  const Demand part = on(machine, product(8, 64, 3072)).launches[0].demand;
  EXPECT_EQ(part.plan.steps, 2);
  EXPECT_DOUBLE_EQ(part.issue_clk, 0.75 * whole.issue_clk);
  EXPECT_DOUBLE_EQ(part.l2.in(units::B), 0.75 * whole.l2.in(units::B));
}

TEST(LaneProducts, AreOfUpToEightRowsAndEvenColumnsWhereWarpsFeedTheTensorUnits) {
  const Machine machine = toy_machine(toy_of_mma_sync());
  EXPECT_NE(on(machine, product(9, 64, 2048)).provider, "trtllm_products");
  EXPECT_NE(on(machine, product(8, 63, 2048)).provider, "trtllm_products");
  EXPECT_NE(on(toy_machine(), product(8, 64, 2048)).provider, "trtllm_products") << "a Hopper";
}

}  // namespace
}  // namespace plumbline::lane_products_test
