// Our attention backward: its launches by hand. Recorded times are held by data/studies/accuracy.json.
#include <gtest/gtest.h>

#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/plan/kernel_menu.hpp"

namespace plumbline::own_backward_test {
namespace {

Machine own_machine(const char* gpu) {
  MachineOptions options{"own"};
  options.clock = ClockMode::burst;
  return machines().get({gpu, options});
}

/// 128 keys stay, 64 queries at a time: five products of 64 x 128 x 128, 4096 FLOP a clock of an H200's SM. Heads that
/// share keys are walked by one CTA.
TEST(OwnBackward, IsThreeLaunchesByHand) {
  const AttentionBackward s{2, 16, 4, 128, 128, 2048, 2048, false};
  const OpPrediction p = predict(s, own_machine("h200_sxm"));
  ASSERT_EQ(p.launch_count, 3);
  EXPECT_EQ(p.attention_plan.q_tile, own_backward_variant(128)->q_tile);
  const Demand& d = p.launches[1].demand;
  EXPECT_EQ(d.plan.ctas, 2 * 4 * 2048 / 128);
  EXPECT_EQ(d.plan.steps, 4 * 2048 / 64);
  EXPECT_EQ(d.tensor_clk, 5 * 2.0 * 64 * 128 * 128 / 4096);
  EXPECT_EQ(d.sfu_clk, 64 * 128 / 16.0);
  // Q and dO come in bf16, dQ leaves in fp32, and two sums a query come
  EXPECT_EQ(d.l2.in(units::B), 2 * 64 * 128 * 2 + 64 * 128 * 4 + 2 * 64 * 4);
  // operands of S and dP twice 64 x 128 a warpgroup, of dV and dK the block's 64 x 128, of dQ 64 x 128 and 128 x 64;
  // dS, Q and dO are written, and dQ leaves
  const double read = 2 * 2 * 2 * 64 * 128 + 2 * 2 * 64 * 128 + 2 * 2 * 64 * 128, written = 3 * 64 * 128;
  EXPECT_EQ(d.smem_clk, ((read + written) * 2 + 64 * 128 * 4) / 128);
  EXPECT_GE(p.time, p.roofline);
}

/// Causal: blocks of queries before the keys are skipped; a block of 128 keys has two on the diagonal.
TEST(OwnBackward, SkipsWhatTheMaskHides) {
  const AttentionBackward s{1, 16, 16, 64, 64, 2048, 2048, true};
  const Demand d = predict(s, own_machine("h200_sxm")).launches[1].demand;
  EXPECT_EQ(d.plan.longest, 2048 / 64);
  EXPECT_DOUBLE_EQ(d.plan.steps, (32 + 2) / 2.0);  // 32, 30 ... 2
}

/// Causal, and eight heads share keys: the group's queries are more than L2 holds, and are read from DRAM again. Without a
/// mask CTAs go through them together.
TEST(OwnBackward, ReadsAgainWhatL2DoesNotHold) {
  const Machine h200 = own_machine("h200_sxm");
  const auto read = [&](std::int64_t kv_heads, bool causal) {
    const AttentionBackward s{1, 32, kv_heads, 128, 128, 16384, 16384, causal};
    return predict(s, h200).launches[1].demand.dram_read.in(units::B);
  };
  EXPECT_GT(read(4, true), 20 * read(4, false));
  EXPECT_LT(read(32, true), 1.3 * read(32, false));
}

TEST(OwnBackward, LeavesOtherShapesToTheNextProvider) {
  const Machine h200 = own_machine("h200_sxm");
  AttentionBackward s{1, 16, 16, 96, 96, 1024, 1024, true};
  EXPECT_NE(predict(s, h200).family, "attention_backward");
  s.qk_dim = s.v_dim = 128;
  EXPECT_EQ(predict(s, h200).family, "attention_backward");
  s.window = 256;
  EXPECT_NE(predict(s, h200).family, "attention_backward");
}

}  // namespace
}  // namespace plumbline::own_backward_test
