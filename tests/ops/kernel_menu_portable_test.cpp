// The portable GEMM's part of the kernel menu.
#include <gtest/gtest.h>

#include "ops/plan/kernel_menu.hpp"

namespace plumbline::kernel_menu_portable_test {
namespace {

TEST(KernelMenu, PortableTilesFitEveryCardFromLargeToSmall) {
  const auto menu = own_gemm_menu(GemmEngine::mma_sync, DType::bf16);
  ASSERT_FALSE(menu.empty());
  constexpr std::int64_t kLeastSharedMemory = 99 * 1024;  // a CTA on sm_86, sm_89 and sm_120
  std::int64_t before = 1 << 30;
  for (const GemmVariant& v : menu) {
    EXPECT_LE((v.rows + v.cols) * v.step_bytes * v.stages, kLeastSharedMemory) << v.rows << 'x' << v.cols;
    EXPECT_LE(v.rows * v.cols, before);
    before = v.rows * v.cols;
    EXPECT_EQ(v.rows % 16, 0);  // m16n8k16
    EXPECT_EQ(v.cols % 8, 0);
    EXPECT_EQ(v.step_bytes % 32, 0);
    EXPECT_EQ(v.cluster, 1);
    EXPECT_GE(v.stages, 3);
  }
  EXPECT_TRUE(own_gemm_menu(GemmEngine::mma_sync, DType::fp8).empty());
}

}  // namespace
}  // namespace plumbline::kernel_menu_portable_test
