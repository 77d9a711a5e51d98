#include "ops/plan/text.hpp"

#include <gtest/gtest.h>

namespace plumbline::plan_text_test {
namespace {

TEST(PlanText, GemmPlansComeBackAsTheyWere) {
  GemmPlan p;
  p.tile_m = 128, p.tile_n = 256, p.tile_k = 64, p.stages = 4;
  EXPECT_EQ(plan_text(p), "tile=128x256x64 stages=4 splits=1 wgmma");
  for (const bool swapped : {false, true}) {
    for (const std::int64_t cluster : {1, 2}) {
      for (const GemmEngine engine : {GemmEngine::wgmma, GemmEngine::mma_sync}) {
        p.swapped = swapped, p.cluster_m = cluster, p.splits = 3 * cluster, p.engine = engine;
        p.clipped = swapped && engine == GemmEngine::wgmma;
        EXPECT_EQ(parse_gemm_plan(plan_text(p)), p) << plan_text(p);
      }
    }
  }
}

TEST(PlanText, AttentionPlansComeBackAsTheyWere) {
  AttentionPlan p;
  p.kv_tile = 64, p.splits = 33;
  EXPECT_EQ(plan_text(p), "q_tile=0 kv_tile=64 splits=33");
  p.packed_heads = 4;
  const auto again = parse_attention_plan(plan_text(p));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->splits, 33);
  EXPECT_EQ(again->packed_heads, 4);
  EXPECT_EQ(again->stages, 0);
}

TEST(PlanText, APlanOfMmaSyncSaysSo) {
  AttentionPlan p{128, 64, 1, 1, 2};
  EXPECT_EQ(plan_text(p), "q_tile=128 kv_tile=64 splits=1 stages=2 mma");
  const auto again = parse_attention_plan(plan_text(p));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->stages, 2);
  EXPECT_FALSE(parse_attention_plan("q_tile=128 kv_tile=64 splits=1 stages=2"));
  EXPECT_FALSE(parse_attention_plan("q_tile=128 kv_tile=64 splits=1 stages=0 mma"));
}

TEST(PlanText, OtherTextsAreNoPlans) {
  for (const char* text : {"", "ctas=666 threads=256", "tile=128x256x64", "tile=128x256x64 stages=4 splits=1",
                           "tile=128x256x64 stages=4 splits=1 wgmma ", "tile=-1x256x64 stages=4 splits=1 wgmma",
                           "tile=128x256x64 stages=4 splits=1 clipped mma",
                           "tile=128x99999999999999999999x64 stages=4 splits=1 wgmma", "algo 13 tile 128x256"}) {
    EXPECT_FALSE(parse_gemm_plan(text)) << text;
    EXPECT_FALSE(parse_attention_plan(text)) << text;
  }
  EXPECT_FALSE(parse_attention_plan("q_tile=0 kv_tile=64 splits=1 packed=1"));
}

}  // namespace
}  // namespace plumbline::plan_text_test
