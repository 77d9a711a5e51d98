// FlashInfer's planner, by hand on the toy GPU (10 SMs of 228 KiB).
#include <gtest/gtest.h>

#include "model/bands/bands.hpp"
#include "model/stacks/stack.hpp"
#include "tests/support/planners.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline::flashinfer_test {
namespace {

using namespace testing_support;

Machine sglang() {
  MachineOptions options;
  options.stack = "sglang";
  options.stack.attention = "flashinfer";  // of every generation
  return make_machine(toy_gpu(), toy_calibration(), options);
}

/// Two CTAs an SM are 20: one stream of keys is cut into 20 parts, of 128 keys at least.
TEST(FlashInfer, TensorUnitsTakePackedHeadsAndFillTwoCtasAnSm) {
  const Machine m = sglang();
  const AttentionChoice wide = plan_attention(AttentionDecode{1, 8, 1, 128, 128, 20 * 256}, m);
  EXPECT_EQ(wide.plan.splits, 20);
  EXPECT_EQ(wide.main.plan.ctas_per_sm, 2);
  // 16 rows leave half an SM's memory room for three times 16 keys a warp, of which kernels take a power of two: 128 keys a step
  EXPECT_EQ(wide.plan.kv_tile, 128);
  EXPECT_EQ(wide.main.plan.steps, 2);
  EXPECT_GT(wide.main.tensor_clk, 0);
  EXPECT_TRUE(wide.combines);
  const AttentionChoice brief = plan_attention(AttentionDecode{1, 8, 1, 128, 128, 512}, m);
  EXPECT_EQ(brief.plan.splits, 4);
  const AttentionChoice many = plan_attention(AttentionDecode{20, 8, 1, 128, 128, 4096}, m);
  EXPECT_EQ(many.plan.splits, 1);
  EXPECT_FALSE(many.combines);
}

/// Decode by tensor units takes mma.sync on every card: no more of its rate than FlashAttention-2 reaches, 128 packed rows by 64
/// keys a step (registers), and a merge that goes by the rows. (Tiles of 100 KB: 32 keys.)
TEST(FlashInfer, TensorUnitsAreThoseOfMmaSync) {
  MachineOptions options;
  options.stack = "sglang";
  options.stack.attention = "flashinfer";
  Calibration with_steps = toy_calibration();
  with_steps.families["library.flash_second"] = with_steps.families.at("library.flash_decode");
  const Machine m = make_machine(toy_gpu(), with_steps, options);
  const AttentionChoice c = plan_attention(AttentionDecode{20, 128, 1, 128, 128, 8192}, m);
  EXPECT_EQ(c.plan.kv_tile, 64);
  EXPECT_GT(c.main.dealt_clk, 128 * 2.0 * 128 * 64 * 256 / 2200) << "128 steps of a CTA alone, at 2200 FLOP a clock";
  Gpu small = toy_gpu();
  small.sm.smem = 100.0 * units::KiB;
  const Machine of_100 = make_machine(small, toy_calibration(), options);
  EXPECT_EQ(plan_attention(AttentionDecode{20, 128, 1, 128, 128, 8192}, of_100).plan.kv_tile, 32);
}

/// One query head: 16 lanes of 8 values, so 8 rows of 128 threads walk four keys each; two stages of 32 keys of 512
/// bytes are 32 KiB, seven of which are in an SM.
TEST(FlashInfer, OrdinaryLanesTakeFewHeads) {
  const Machine m = sglang();
  const AttentionChoice c = plan_attention(AttentionDecode{1, 1, 1, 128, 128, 65536}, m);
  EXPECT_EQ(c.plan.kv_tile, 32);
  EXPECT_EQ(c.main.plan.ctas_per_sm, 7);
  EXPECT_EQ(c.plan.splits, 70);
  EXPECT_EQ(c.main.tensor_clk, 0);
  EXPECT_EQ(plan_attention(AttentionDecode{1, 3, 1, 128, 128, 65536}, m).main.tensor_clk, 0);
  EXPECT_GT(plan_attention(AttentionDecode{1, 4, 1, 128, 128, 65536}, m).main.tensor_clk, 0);
  AttentionDecode narrow{1, 1, 1, 128, 128, 65536};
  narrow.kv_dtype = DType::fp8;
  EXPECT_GT(plan_attention(narrow, m).main.tensor_clk, 0);
}

/// Another library's scalars stand in: nothing of it is called calibrated, and its residuals are a class of their own.
TEST(FlashInfer, WasNeverMeasured) {
  const Op decode = AttentionDecode{1, 8, 1, 128, 128, 4096};
  const OpPrediction p = predict(decode, sglang());
  EXPECT_EQ(p.provider, "flashinfer");
  EXPECT_EQ(p.provenance, Provenance::never_measured);
  EXPECT_EQ(band_class_name(p.band_class), "flashinfer_decode");
  EXPECT_TRUE(band_class_is_unfitted(p.band_class));
  Calibration c = toy_calibration();
  c.families["library.flashinfer_decode"] = c.families.at("library.flash_decode");
  c.measured["library.flashinfer_decode"] = {"bf16"};
  MachineOptions options;
  options.stack = "sglang";
  options.stack.attention = "flashinfer";
  EXPECT_EQ(predict(decode, make_machine(toy_gpu(), c, options)).provenance, Provenance::measured);
}

}  // namespace
}  // namespace plumbline::flashinfer_test
