// The roofline floor on the toy GPU: bf16 10 TFLOP/s, fp32 2.56, DRAM 1 TB/s, NVLink 100 GB/s, PCIe 25 GB/s.
#include "model/engine/roofline.hpp"

#include <gtest/gtest.h>

#include "tests/support/toy_gpu.hpp"

namespace plumbline::roofline_test {
namespace {

const Op kAny = Transfer{TransferKind::d2d, 1};

Work work_of(double tensor, double fp32, double bytes) {
  Work w;
  w.tensor = tensor * units::FLOP;
  w.fp32 = fp32 * units::FLOP;
  w.read = bytes * units::B;
  return w;
}

double us(const Op& op, const Work& w, const Gpu& gpu = toy_gpu()) { return roofline(op, w, gpu).in(units::us); }

/// 2 x 1000^3 FLOP at 10 TFLOP/s; 3 x 1000^2 x 2 bytes take 6 us.
TEST(Roofline, OfAProductIsItsFlops) {
  EXPECT_DOUBLE_EQ(roofline(Gemm{1000, 1000, 1000, 1, {}, false}, toy_gpu()).in(units::us), 200);
  EXPECT_DOUBLE_EQ(roofline(Gemm{1, 1000, 1000, 1, {}, false}, toy_gpu()).in(units::us), 2.004);
}

TEST(Roofline, IsTheLargestTermAndItsLimiterSaysWhich) {
  const auto limiter = [](const Work& w) { return roofline_limiter(kAny, w, toy_gpu()); };
  EXPECT_DOUBLE_EQ(us(kAny, work_of(10e6, 2.56e6, 0.5e6)), 1);
  EXPECT_EQ(limiter(work_of(20e6, 2.56e6, 1e6)), Resource::tensor);
  EXPECT_DOUBLE_EQ(us(kAny, work_of(10e6, 5.12e6, 1e6)), 2);
  EXPECT_EQ(limiter(work_of(10e6, 5.12e6, 1e6)), Resource::fp32);
  EXPECT_DOUBLE_EQ(us(kAny, work_of(10e6, 2.56e6, 3e6)), 3);
  EXPECT_EQ(limiter(work_of(10e6, 2.56e6, 3e6)), Resource::dram);
}

/// Formats without a tensor path: fp64 on fp64 lanes (100 FLOP a clock and SM), all others on those of fp32.
TEST(Roofline, OrdinaryLanesTakeWhatTensorUnitsDoNot) {
  Gpu gpu = toy_gpu();
  gpu.sm.tensor_flop_per_clk[DType::fp64] = 0;
  gpu.sm.fp64_flop_per_clk = 50;
  Work w = work_of(1e6, 0, 0);
  w.math = DType::fp64;
  EXPECT_DOUBLE_EQ(us(kAny, w, toy_gpu()), 1);
  EXPECT_DOUBLE_EQ(us(kAny, w, gpu), 2);
  w.math = DType::fp32;
  EXPECT_DOUBLE_EQ(us(kAny, w, gpu), 1 / 2.56);
}

/// A kernel may round queries to 8 bits where keys are stored so: 20 TFLOP/s here, but not where the card has no such units.
TEST(Roofline, ProductsWithNarrowKeysMayBeNarrow) {
  AttentionPrefill s{1, 1, 1, 128, 128, 1000, 1000};
  s.causal = false;
  const double us16 = roofline(Op(s), toy_gpu()).in(units::us);
  EXPECT_DOUBLE_EQ(us16, 2.0 * 1000 * 1000 * 256 / 10e6);
  s.kv_dtype = DType::fp8;
  Gpu gpu = toy_gpu();
  gpu.sm.tensor_flop_per_clk[DType::fp8] = 2 * gpu.sm.tensor_flop_per_clk[DType::bf16];
  EXPECT_DOUBLE_EQ(roofline(Op(s), gpu).in(units::us), us16 / 2);
  gpu.sm.tensor_flop_per_clk[DType::fp8] = 0;
  EXPECT_DOUBLE_EQ(roofline(Op(s), gpu).in(units::us), us16);
}

/// A token of 1000 query heads on one KV head: 2 x 1000 x 1000 x 200 FLOP are 40 us at 10 TFLOP/s, its keys 0.4 us.
TEST(Roofline, OfDecodeWithNarrowKeysMayBeNarrowToo) {
  AttentionDecode s{1, 1000, 1, 100, 100, 1000};
  EXPECT_DOUBLE_EQ(roofline(Op(s), toy_gpu()).in(units::us), 40);
  s.kv_dtype = DType::fp8;
  EXPECT_DOUBLE_EQ(roofline(Op(s), toy_gpu()).in(units::us), 20);
}

TEST(Roofline, HostCopiesTakePcieAndRanksTakeNvlink) {
  Work w;
  w.link = 100e3 * units::B;
  EXPECT_DOUBLE_EQ(us(Transfer{TransferKind::h2d, 1}, w), 4);
  EXPECT_DOUBLE_EQ(us(Transfer{TransferKind::d2h, 1}, w), 4);
  EXPECT_DOUBLE_EQ(us(Transfer{TransferKind::send_recv, 1}, w), 1);
  EXPECT_EQ(roofline_limiter(Transfer{TransferKind::send_recv, 1}, w, toy_gpu()), Resource::link);
  Gpu alone = toy_gpu();
  alone.links.nvlink_per_direction = Bandwidth{};
  EXPECT_DOUBLE_EQ(us(Transfer{TransferKind::send_recv, 1}, w, alone), 4) << "without NVLink over PCIe";
  alone.links.pcie_per_direction = Bandwidth{};
  w.read = 2e6 * units::B;
  EXPECT_DOUBLE_EQ(us(Transfer{TransferKind::send_recv, 1}, w, alone), 2) << "a link that is not there takes no time";
}

}  // namespace
}  // namespace plumbline::roofline_test
