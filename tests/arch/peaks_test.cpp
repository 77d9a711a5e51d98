#include "arch/gpu/peaks.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/support/toy_gpu.hpp"

namespace plumbline::peaks_test {
namespace {

TEST(Peaks, OfRoundNumbers) {
  const Gpu gpu = toy_gpu();
  const Hertz clock = 1.0 * units::GHz;
  EXPECT_DOUBLE_EQ(tensor_peak(gpu, DType::bf16, clock).in(units::TFLOP_per_s), 10);
  EXPECT_DOUBLE_EQ(tensor_peak(gpu, DType::fp8, 0.5 * clock).in(units::TFLOP_per_s), 10);
  EXPECT_EQ(tensor_peak(gpu, DType::int4, clock), FlopRate());
  EXPECT_DOUBLE_EQ(fp32_peak(gpu, clock).in(units::TFLOP_per_s), 2.56);
  EXPECT_DOUBLE_EQ(fp64_peak(gpu, clock).in(units::TFLOP_per_s), 1);
  EXPECT_DOUBLE_EQ(sfu_peak(gpu, clock).in(units::GHz), 160);
  EXPECT_DOUBLE_EQ(smem_peak(gpu, clock).in(units::TB_per_s), 1.28);
  EXPECT_DOUBLE_EQ(l2_peak(gpu, clock).in(units::TB_per_s), 10);
  EXPECT_DOUBLE_EQ(ridge_point(gpu, DType::bf16, clock).in(units::FLOP_per_B), 10);
}

TEST(Peaks, L2IsLimitedByItsPortsToo) {
  Gpu gpu = toy_gpu();
  gpu.sm.l2_bytes_per_clk = 64.0 * units::B;
  EXPECT_DOUBLE_EQ(l2_peak(gpu, 1.0 * units::GHz).in(units::TB_per_s), 0.64);
}

TEST(Peaks, OfAnH200AtTheDatasheetClock) {
  const Gpu gpu = load_gpu("h200");
  EXPECT_NEAR(tensor_peak(gpu, DType::bf16, 1830.0 * units::MHz).in(units::TFLOP_per_s), 989.4, 0.1);
  EXPECT_NEAR(tensor_peak(gpu, DType::bf16, gpu.boost_clock).in(units::TFLOP_per_s), 1070.5, 0.1);
  EXPECT_NEAR(fp32_peak(gpu, gpu.boost_clock).in(units::TFLOP_per_s), 66.9, 0.1);
  EXPECT_NEAR(fp64_peak(gpu, gpu.boost_clock).in(units::TFLOP_per_s), 33.5, 0.1);
}

RC_GTEST_PROP(Peaks, AreProportionalToClockAndCount, ()) {
  Gpu gpu = toy_gpu();
  gpu.sm_count = *rc::gen::inRange<std::int64_t>(1, 1000);
  const Hertz clock = static_cast<double>(*rc::gen::inRange(100, 3000)) * units::MHz;
  Gpu twice = gpu;
  twice.sm_count *= 2;
  const auto type = static_cast<DType>(*rc::gen::inRange<std::size_t>(0, kDTypeCount));
  RC_ASSERT(tensor_peak(twice, type, clock) == 2.0 * tensor_peak(gpu, type, clock));
  RC_ASSERT(tensor_peak(gpu, type, 2.0 * clock) == 2.0 * tensor_peak(gpu, type, clock));
  RC_ASSERT(smem_peak(twice, clock) == 2.0 * smem_peak(gpu, clock));
  RC_ASSERT(l2_peak(gpu, 2.0 * clock) == 2.0 * l2_peak(gpu, clock));
}

}  // namespace
}  // namespace plumbline::peaks_test
