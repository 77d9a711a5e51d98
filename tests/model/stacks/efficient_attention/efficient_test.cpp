// PyTorch's memory-efficient attention: kernels by type and width, parts of keys and launches by hand.
#include <gtest/gtest.h>

#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/efficient_attention/plan_efficient.hpp"

namespace plumbline::efficient_test {
namespace {

using namespace efficient_attention;

Machine h200() {
  MachineOptions options{"hf-sdpa-efficient"};
  options.clock = ClockMode::burst;
  return machines().get({"h200_sxm", options});
}

TEST(EfficientKernels, GoByTypeAndWidth) {
  EXPECT_EQ(forward_kernel(DType::bf16, 64)->keys, 64);
  EXPECT_EQ(forward_kernel(DType::fp16, 80)->keys, 128);
  EXPECT_EQ(forward_kernel(DType::bf16, 192)->queries, 32);
  EXPECT_EQ(forward_kernel(DType::fp32, 128)->registers, 244);
  EXPECT_EQ(backward_kernel(DType::bf16, 128)->warps, 16);
  EXPECT_EQ(backward_kernel(DType::fp32, 128)->keys, 64);
  EXPECT_EQ(forward_kernel(DType::fp8, 64), nullptr);
}

/// Gradients of wide heads are summed up in memory, for which 200 CTAs are enough; others have a CTA for each block.
TEST(EfficientKernels, DealBlocksOfKeys) {
  const AttentionBackward wide{1, 40, 40, 256, 256, 1500, 1500};
  EXPECT_EQ(key_parts(*backward_kernel(DType::bf16, 256), wide), 5);
  const AttentionBackward usual{1, 16, 16, 128, 128, 2048, 2048};
  EXPECT_EQ(key_parts(*backward_kernel(DType::bf16, 128), usual), 16);
}

/// 4 heads x 16 tiles of 64 queries, of which the i-th sees i blocks of 64 keys; fp32's products are three of tf32 each.
TEST(EfficientPlan, CountsBlocksAndLaunches) {
  AttentionPrefill s{1, 4, 4, 64, 64, 1024, 1024, true};
  const OpPrediction p = predict(s, h200());
  ASSERT_EQ(p.launch_count, 1);
  EXPECT_EQ(p.launches[0].demand.plan.ctas, 64);
  EXPECT_DOUBLE_EQ(p.launches[0].demand.plan.steps, 8.5);
  s.dtype = s.kv_dtype = DType::fp32;
  const OpPrediction fp32 = predict(s, h200());
  EXPECT_DOUBLE_EQ(fp32.launches[0].demand.tensor_clk, 6 * p.launches[0].demand.tensor_clk);
  EXPECT_GT(fp32.time, 2 * p.time);
  EXPECT_EQ(predict(backward_of({1, 4, 4, 64, 64, 1024, 1024, true}), h200()).launch_count, 2) << "clears, then sums";
  EXPECT_EQ(predict(backward_of(s), h200()).launch_count, 5);
}

}  // namespace
}  // namespace plumbline::efficient_test
