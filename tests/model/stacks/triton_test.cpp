// SGLang's attention in Triton, by hand: how keys are cut, and tiles by the card.
#include "model/stacks/triton/plan_attention.hpp"

#include <gtest/gtest.h>

#include "model/machines.hpp"
#include "model/predict.hpp"
#include "tests/support/planners.hpp"

namespace plumbline::triton_test {
namespace {

using namespace testing_support;

Machine on(const std::string& gpu) { return machines().get({gpu, MachineOptions{"sglang-triton"}}); }

AttentionPrefill prompt(std::int64_t width) {
  AttentionPrefill s;
  s.batch = 1;
  s.q_heads = 32;
  s.kv_heads = 8;
  s.qk_dim = s.v_dim = width;
  s.q_len = s.kv_len = 4096;
  s.causal = true;
  return s;
}

/// Of 100 SMs and 4096 keys: 100 log2(4096 / 64) = 600 CTAs are wanted, which 100 CTAs need six parts for, and 8 no more
/// than eight. Parts are of whole 32 keys: 4096 / 6 are 683, 704, which end after six; 100 keys in eight parts are 32
/// each, so four.
TEST(TritonAttention, CutsKeysByWhatTheSmsHaveRoomFor) {
  EXPECT_EQ(triton::parts_of(100, 4096, 100), 6);
  EXPECT_EQ(triton::parts_of(8, 4096, 100), 8);
  EXPECT_EQ(triton::parts_of(8, 100, 100), 4);
  EXPECT_EQ(triton::parts_of(8, 20, 100), 1);
  EXPECT_EQ(triton::parts_of(600, 4096, 100), 1);
}

/// SMs of 100 KB take narrower tiles, wide heads fewer rows.
TEST(TritonAttention, TilesGoByTheCard) {
  const auto tile = [](const char* gpu, std::int64_t width) {
    const AttentionPlan plan = plan_attention(prompt(width), on(gpu)).plan;
    return std::pair{plan.q_tile, plan.kv_tile};
  };
  EXPECT_EQ(tile("rtx_pro_6000_server", 128), (std::pair<std::int64_t, std::int64_t>{64, 128}));
  EXPECT_EQ(tile("l40s", 256), (std::pair<std::int64_t, std::int64_t>{64, 64}));
  EXPECT_EQ(tile("a100_sxm", 128), (std::pair<std::int64_t, std::int64_t>{128, 128}));
  EXPECT_EQ(tile("h200_sxm", 128), (std::pair<std::int64_t, std::int64_t>{128, 64}));
}

/// A step of decode has up to sixteen heads of a group on tensor units, one head on ordinary lanes, and a merge where keys
/// are cut.
TEST(TritonAttention, DecodePacksHeadsOfAGroup) {
  const AttentionChoice grouped = plan_attention(AttentionDecode{1, 32, 8, 128, 128, 8192}, on("rtx_pro_6000_server"));
  EXPECT_EQ(grouped.plan.packed_heads, 4);
  EXPECT_EQ(grouped.plan.splits, 8);
  EXPECT_TRUE(grouped.combines);
  EXPECT_EQ(grouped.main.plan.ctas, 64);
  EXPECT_GT(grouped.main.tensor_clk, 0);
  const AttentionChoice single = plan_attention(AttentionDecode{1, 32, 32, 128, 128, 8192}, on("rtx_pro_6000_server"));
  EXPECT_EQ(single.main.tensor_clk, 0);
}

/// Loads wait for products, which costs prompts time that FlashAttention hides.
TEST(TritonAttention, PromptsAreSlowerThanFlashInfers) {
  for (const char* gpu : {"l40s", "rtx_pro_6000_server", "a100_sxm"}) {
    Predictor predictor;
    OpPrediction triton, flashinfer;
    predictor.predict(prompt(128), on(gpu), triton, {});
    predictor.predict(prompt(128), machines().get({gpu, MachineOptions{"sglang"}}), flashinfer, {});
    EXPECT_EQ(triton.provider, "triton_attention") << gpu;
    EXPECT_EQ(triton.provenance, Provenance::never_measured) << gpu;
    EXPECT_GT(triton.time, flashinfer.time) << gpu;
  }
}

}  // namespace
}  // namespace plumbline::triton_test
