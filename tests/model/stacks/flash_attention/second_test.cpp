// FlashAttention-2 over keys that lie one behind the other, as PyTorch ships it: tiles by card and steps by hand.
#include "model/stacks/flash_attention/second.hpp"

#include <gtest/gtest.h>

#include <string>

#include "model/machines.hpp"
#include "model/predict.hpp"

namespace plumbline::second_test {
namespace {

using namespace flash_attention;

Machine machine_of(const char* gpu) {
  MachineOptions options{"torchtitan"};
  options.clock = ClockMode::burst;
  return machines().get({gpu, options});
}

std::string tile(const char* gpu, double width, bool causal) {
  const SecondTile t = second_tile(width, causal, machine_of(gpu).rates());
  const auto whole = [](double v) { return std::to_string(static_cast<int>(v)); };
  return whole(t.rows) + "x" + whole(t.keys) + " " + whole(t.warps);
}

/// As run_mha_fwd_hdim64() to 256() have them, and a H200's launches are named.
TEST(SecondTiles, GoByWidthsAndCards) {
  EXPECT_EQ(tile("h200_sxm", 64, true), "128x128 4");
  EXPECT_EQ(tile("h200_sxm", 96, true), "128x64 4");
  EXPECT_EQ(tile("h200_sxm", 128, true), "128x64 4");
  EXPECT_EQ(tile("h200_sxm", 192, true), "128x64 8");
  EXPECT_EQ(tile("h200_sxm", 256, true), "64x64 4");
  EXPECT_EQ(tile("a100_sxm", 256, true), "128x64 8");
  EXPECT_EQ(tile("l40s", 96, true), "64x64 4");
  EXPECT_EQ(tile("l40s", 128, true), "64x64 4");
  EXPECT_EQ(tile("l40s", 128, false), "128x32 4");
  EXPECT_EQ(tile("rtx_pro_6000_server", 128, true), "128x64 4") << "12.x is no 8.x";
  EXPECT_EQ(tile("l40s", 256, false), "64x64 4");
}

/// Products 3 and softmax 4 at p = 2 are 5; half of 6 clocks of operands is seen by one warp, a quarter by two.
TEST(SecondSteps, HideOperandsBehindOtherWarps) {
  FamilyScalars family;
  family.overlap = 2;
  family.exposed = 0.5;
  const SecondStep step{3, 4, 6};
  EXPECT_DOUBLE_EQ(second_step_clk(step, 1, family), 8);
  EXPECT_DOUBLE_EQ(second_step_clk(step, 2, family), 6.5);
  EXPECT_DOUBLE_EQ(second_step_clk({3, 4, 12}, 2, family), 12) << "shared memory is busy for so long";
}

/// 12 heads of 1024 keys in four parts of one block of 256, 16 tiles of 64 rows: of 768 CTAs 480 have keys before the diagonal.
TEST(SecondPlan, PartsBehindTheDiagonalTakeNoTime) {
  const Machine h200 = machine_of("h200_sxm");
  const OpPrediction masked = predict(AttentionPrefill{1, 12, 12, 64, 64, 1024, 1024, true}, h200),
                     whole = predict(AttentionPrefill{1, 12, 12, 64, 64, 1024, 1024, false}, h200);
  ASSERT_EQ(masked.launch_count, 2);
  EXPECT_EQ(masked.launches[0].demand.plan.ctas, 768);
  EXPECT_LT(masked.time, 0.9 * whole.time) << "24.0 and 28.6 us measured";
  EXPECT_EQ(masked.launches[1].demand.plan.ctas, 1536) << "eight rows a CTA of the merge";
}

/// 16 x 2 heads of 2048 queries: 512 CTAs of 128 rows and 32 blocks of 64 keys; of few heads keys are cut, and merged.
TEST(SecondPlan, CutsKeysOfFewTilesOnly) {
  const Machine h200 = machine_of("h200_sxm");
  const AttentionPrefill many{2, 16, 16, 128, 128, 2048, 2048, false};
  const OpPrediction whole = predict(many, h200);
  ASSERT_EQ(whole.launch_count, 1);
  EXPECT_EQ(whole.launches[0].demand.plan.ctas, 512);
  EXPECT_EQ(whole.launches[0].demand.plan.steps, 32);
  EXPECT_EQ(whole.launches[0].demand.plan.ctas_per_sm, 2);
  // 96 tiles of 64 rows on 264 slots, four blocks of 128 keys: cut in two, 192 of them
  const AttentionPrefill few{1, 12, 12, 128, 128, 512, 512, false};
  const OpPrediction cut = predict(few, h200);
  ASSERT_EQ(cut.launch_count, 2);
  EXPECT_EQ(cut.launches[0].demand.plan.ctas, 192);
  EXPECT_EQ(cut.launches[0].demand.plan.steps, 2);
}

/// 32 heads of four tiles of 128 rows, causal: 36.6 us measured where the last tile is 116 rows, whose kernel's code is 119 KiB long,
/// 22.7 where it is whole, with 80 KiB; of 96 columns 20.5 and 17.3. Without a mask code is short.
TEST(SecondPlan, LongCodeComesFromMemory) {
  const Machine h200 = machine_of("h200_sxm");
  const auto us = [&](std::int64_t width, std::int64_t tokens, bool causal) {
    return predict(AttentionPrefill{1, 32, 32, width, width, tokens, tokens, causal}, h200).time.in(units::us);
  };
  EXPECT_NEAR(us(128, 500, true) - us(128, 512, true), 36.6 - 22.7, 3);
  EXPECT_NEAR(us(96, 500, true) - us(96, 512, true), 20.5 - 17.3, 1.5);
  EXPECT_NEAR(us(128, 500, false) - us(128, 512, false), 0, 1);
}

}  // namespace
}  // namespace plumbline::second_test
