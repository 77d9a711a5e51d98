// Latent decode on mma.sync (plan_mla_mma.cpp), by hand: TensorRT-LLM's kernel that cuts no keys, vLLM's of Triton that always cuts them in four.
#include <gtest/gtest.h>

#include <string>

#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/trtllm/flash_mla.hpp"

namespace plumbline::latent_on_mma_test {
namespace {

OpPrediction on(const std::string& gpu, const MlaDecode& s, const std::string& stack = "trt-llm") {
  MachineOptions machine{stack};
  machine.clock = ClockMode::burst;
  Predictor predictor;
  OpPrediction out;
  predictor.predict(Op{s}, machines().get({gpu, machine}), out, {});
  return out;
}

MlaDecode latent(std::int64_t batch, std::int64_t heads, std::int64_t keys) { return {batch, heads, keys, 512, 64}; }

double us(const OpPrediction& p) { return p.time.in(units::us); }

/// 1024 x 64 keys are 1024 times a tile of 64 x 64 scores: 4352 clk of products (2048 a clock) and 6470 beside, at 1410 MHz.
TEST(LatentOnMma, ACtaWalksAllKeysOfItsSequence) {
  const double tile = (2 * 64 * 64 * 1088.0 / 2048 + 6470.08) / 1410;
  const double longer = us(on("a100_sxm", latent(1, 16, 65536))) - us(on("a100_sxm", latent(1, 16, 32768)));
  EXPECT_NEAR(longer, 512 * tile, 0.02 * longer);
}

/// Up to 64 heads are one tile, up to 54 sequences one CTA for each pair of SMs; 55 share pairs, 109 take a second round.
TEST(LatentOnMma, HeadsAndSequencesAreFreeUntilTheyShareAnSm) {
  const double one = us(on("a100_sxm", latent(1, 16, 4096)));
  EXPECT_NEAR(us(on("a100_sxm", latent(1, 64, 4096))), one, 0.01 * one);
  EXPECT_NEAR(us(on("a100_sxm", latent(54, 16, 4096))), one, 0.02 * one);
  EXPECT_NEAR(us(on("a100_sxm", latent(55, 16, 4096))), 1.376 * one, 0.03 * one);
  EXPECT_NEAR(us(on("a100_sxm", latent(109, 16, 4096))), 2.376 * one, 0.05 * one);
  EXPECT_NEAR(us(on("a100_sxm", latent(27, 128, 4096))), one, 0.02 * one) << "54 CTAs of 64 heads";
}

/// (Rows of the training side: 15.9, 476, 8000 us, and 2.00 ms of 16384 keys by four parts.)
TEST(LatentOnMma, RowsOfAnA100) {
  EXPECT_NEAR(us(on("a100_sxm", latent(4, 64, 16))), 15.7, 1.5);
  EXPECT_NEAR(us(on("a100_sxm", latent(1, 4, 4096))), 476.5, 30);
  EXPECT_NEAR(us(on("a100_sxm", latent(4, 4, 65536))), 7999, 400);
  EXPECT_NEAR(us(on("a100_sxm", latent(16, 4, 65536), "vllm")), 1784, 130);
}

/// Four parts are four CTAs: a quarter of the keys each, and no more of them for a single sequence on an idle card.
TEST(LatentOnMma, TritonCutsKeysInFour) {
  const OpPrediction p = on("a100_sxm", latent(1, 16, 65536), "vllm");
  EXPECT_EQ(p.launches[0].demand.plan.ctas, 4);
  EXPECT_EQ(p.launches[0].demand.plan.steps, 65536 / 4 / 32);
  EXPECT_EQ(p.launch_count, 2) << "and the merge";
  EXPECT_EQ(on("a100_sxm", latent(3, 40, 1024), "vllm").launches[0].demand.plan.ctas, 3 * 3 * 4);
}

/// Stacks that have no latent kernel of their own borrow the one that cuts keys: no long sequence waits for a single CTA.
TEST(LatentOnMma, StacksWithoutAKernelBorrowTritons) {
  constexpr double kGap = 2;  // a stream's launches lie farther apart than a graph's
  const MlaDecode s = latent(1, 128, 65536);
  for (const char* stack : {"hf-sdpa", "hf-eager", "hf-static", "torch-compile", "megatron", "vllm-2023"}) {
    for (const char* card : {"a100_sxm", "l40s", "rtx_pro_6000_server"})
      EXPECT_NEAR(us(on(card, s, stack)), us(on(card, s, "vllm")), kGap) << card << " " << stack;
    EXPECT_NEAR(us(on("h200_sxm", s, stack)), us(on("h200_sxm", s)), kGap) << stack;
  }
}

/// The kernels go by what multiplies: cards without wgmma take them, others FlashMLA or trtllm-gen; 8-bit caches are cut on
/// sm_120.
TEST(LatentOnMma, OtherCardsTakeTheirOwn) {
  for (const char* card : {"l40s", "l4", "rtx_4090", "rtx_a6000", "rtx_pro_6000", "rtx_5090"}) {
    const OpPrediction p = on(card, latent(1, 64, 65536));
    EXPECT_EQ(p.launches[0].demand.plan.ctas, 1) << card;
  }
  for (const char* card : {"h200_sxm", "b200_sxm"}) {
    EXPECT_GT(on(card, latent(1, 64, 65536)).launches[0].demand.plan.ctas, 64) << card;
  }
  MlaDecode narrow = latent(1, 64, 65536);
  narrow.kv_dtype = DType::fp8;
  EXPECT_GT(on("rtx_pro_6000", narrow).launches[0].demand.plan.ctas, 64);
  EXPECT_EQ(on("l40s", narrow).launches[0].demand.plan.ctas, 1);
}

/// get_mla_metadata_kernel() of one sequence of 16384 keys for 132 SMs: (256 + 5) / 132 is 2, up, and 5: pieces of two blocks.
TEST(FlashMla, ASequenceIsCutWhereItIsMoreThanAnSmsLoad) {
  const MlaDeal one = deal_latent(1, 256, 1, 132);
  EXPECT_EQ(one.blocks, 2);
  EXPECT_EQ(one.ctas, 128);
  EXPECT_EQ(one.splits, 128);
  // 256 sequences of one block: 6 each, 12 an SM and 5: two whole ones, and no room to begin a third
  const MlaDeal short_ones = deal_latent(256, 1, 1, 132);
  EXPECT_EQ(short_ones.pieces, 2);
  EXPECT_EQ(short_ones.blocks, 2);
  EXPECT_EQ(short_ones.ctas, 128);
  EXPECT_EQ(short_ones.splits, 1);
  // two tiles of heads share the SMs
  EXPECT_EQ(deal_latent(1, 512, 2, 132).ctas, 64);
}

}  // namespace
}  // namespace plumbline::latent_on_mma_test
