// Which kernels scaled_dot_product_attention takes on which card.
#include <gtest/gtest.h>

#include <string>

#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/pytorch/sdpa.hpp"

namespace plumbline::sdpa_test {
namespace {

Machine on(const char* gpu) {
  MachineOptions options{"hf-sdpa"};
  options.clock = ClockMode::burst;
  return machines().get({gpu, options});
}

AttentionPrefill prompt(std::int64_t width = 128) { return {4, 16, 16, width, width, 2048, 2048, true, 0, 0}; }

SdpaKernel kernel(const char* gpu, const AttentionPrefill& s) { return sdpa_kernel(s, on(gpu).rates()); }

TEST(Sdpa, TakesCudnnFirstOnHopperAndBlackwellServers) {
  for (const char* gpu : {"h100_sxm", "h200_sxm", "b200_sxm"}) {
    EXPECT_EQ(kernel(gpu, prompt()), SdpaKernel::cudnn) << gpu;
  }
  for (const char* gpu : {"a100_sxm", "rtx_a6000", "l40s", "rtx_5090"}) {
    EXPECT_EQ(kernel(gpu, prompt()), SdpaKernel::flash2) << gpu;
  }
  EXPECT_EQ(kernel("v100_sxm", prompt()), SdpaKernel::efficient);
  EXPECT_EQ(kernel("t4", prompt()), SdpaKernel::efficient);
}

TEST(Sdpa, FlashAttention2RefusesMatricesWideHeadsAndSinglePrecision) {
  AttentionPrefill s = prompt(257);
  EXPECT_EQ(kernel("a100_sxm", s), SdpaKernel::efficient);
  s = prompt();
  s.v_dim = 64;
  EXPECT_EQ(kernel("a100_sxm", s), SdpaKernel::efficient);
  s = prompt();
  s.kv_len = 4096;
  EXPECT_EQ(kernel("a100_sxm", s), SdpaKernel::efficient) << "a causal mask of fewer queries than keys";
  s.causal = false;
  EXPECT_EQ(kernel("a100_sxm", s), SdpaKernel::flash2);
  s.masked = true;
  EXPECT_EQ(kernel("a100_sxm", s), SdpaKernel::efficient);
  EXPECT_EQ(kernel("h200_sxm", s), SdpaKernel::cudnn) << "adds matrices itself";
  s = prompt();
  s.dtype = s.kv_dtype = DType::fp32;
  EXPECT_EQ(kernel("a100_sxm", s), SdpaKernel::efficient);
  EXPECT_EQ(kernel("h200_sxm", s), SdpaKernel::efficient);
}

TEST(Sdpa, WidthsBesideMultiplesOf8AreFlashAttention2s) {
  EXPECT_EQ(kernel("h200_sxm", prompt(100)), SdpaKernel::flash2);
  EXPECT_EQ(kernel("h200_sxm", prompt(104)), SdpaKernel::cudnn);
  EXPECT_EQ(kernel("b200_sxm", prompt(100)), SdpaKernel::flash2);
  AttentionPrefill masked = prompt(100);
  masked.masked = true;
  EXPECT_EQ(kernel("h200_sxm", masked), SdpaKernel::efficient);
}

TEST(Sdpa, GradientsOf193To224ColumnsAreRefusedOnSmallSms) {
  const auto gradients = [](const char* gpu, std::int64_t width) {
    return sdpa_kernel(backward_of(prompt(width)), on(gpu).rates());
  };
  EXPECT_EQ(gradients("a100_sxm", 200), SdpaKernel::flash2);
  EXPECT_EQ(gradients("l40s", 200), SdpaKernel::efficient);
  EXPECT_EQ(gradients("l40s", 192), SdpaKernel::flash2);
  EXPECT_EQ(gradients("l40s", 256), SdpaKernel::flash2);
}

/// By hand, an A100: 64 heads of 16 tiles of 128 queries against blocks of 64 keys, two CTAs an SM.
TEST(Sdpa, AnA100RunsTilesOfFlashAttention2) {
  const OpPrediction p = predict(prompt(), on("a100_sxm"));
  EXPECT_STREQ(p.launches[0].kernel, "attention");
  EXPECT_EQ(p.launches[0].demand.plan.ctas, 64 * 16);
  EXPECT_EQ(p.launches[0].demand.plan.ctas_per_sm, 2);
  EXPECT_STREQ(predict(prompt(), on("h200_sxm")).launches[0].kernel, "cuDNN attention");
  AttentionPrefill halves = prompt();
  halves.dtype = halves.kv_dtype = DType::fp16;
  EXPECT_STREQ(predict(halves, on("v100_sxm")).launches[0].kernel, "memory-efficient attention");
}

TEST(Sdpa, AStepOfAnA100CutsKeysOfFewHeads) {
  AttentionDecode step;
  step.batch = 1;
  step.q_heads = step.kv_heads = 8;
  step.qk_dim = step.v_dim = 128;
  step.context = 8192;
  EXPECT_EQ(sdpa_kernel(step, on("a100_sxm").rates()), SdpaKernel::flash2);
  const OpPrediction whole = predict(step, on("a100_sxm"));
  EXPECT_EQ(whole.launch_count, 2) << "and a merge";
  EXPECT_GT(whole.launches[0].demand.plan.ctas, 8);
  step.q_heads = 64;
  EXPECT_EQ(prompt_of_groups(step).q_len, 8);
  EXPECT_EQ(predict(step, on("a100_sxm")).launches[0].demand.plan.ctas, whole.launches[0].demand.plan.ctas)
      << "eight heads of a group are rows of one tile";
}

}  // namespace
}  // namespace plumbline::sdpa_test
