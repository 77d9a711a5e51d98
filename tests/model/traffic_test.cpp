// DRAM traffic of the plans, by hand.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "model/stacks/common/plan_attention.hpp"
#include "ops/op/work.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline {
namespace {

using namespace testing_support;

std::shared_ptr<const Machine> toy_flash(const Gpu& gpu = toy_gpu()) {
  MachineOptions options;
  options.kernels = KernelSet::library;
  options.attention = AttentionStack::flash_attention;
  return make_machine(gpu, toy_calibration(), options);
}

/// 128 queries at the end of 131072 cached keys, under a window of 128: the first of them sees 128 keys, so that all
/// see 128 + 127 = 255; without a causal mask each sees the last 128. 8 KV heads, keys and values of 64 in 16 bits.
TEST(PrefillTraffic, ReadsTheKeysThatAWindowLeaves) {
  AttentionPrefill s{1, 32, 8, 64, 64, 128, 131072, true, 128, 0};
  const double queries = 32 * 128 * 64 * 2, key = 8 * (64 + 64) * 2;
  for (const auto& m : {toy_machine(), toy_flash(), toy_machine(toy_gpu(), toy_calibration(), KernelSet::own)}) {
    s.causal = true;
    EXPECT_DOUBLE_EQ(plan_prefill(s, *m).main.dram_read.in(units::B), queries + 255 * key);
    s.causal = false;
    EXPECT_DOUBLE_EQ(plan_prefill(s, *m).main.dram_read.in(units::B), queries + 128 * key);
  }
}

/// ... and moves them at the energy of as many bytes: what a longer cache adds is hidden.
TEST(PrefillTraffic, AHiddenCacheTakesNoEnergy) {
  const auto m = make_machine(load_gpu("h200_sxm"), {});
  AttentionPrefill s{1, 32, 8, 64, 64, 128, 1024, true, 128, 0};
  const OpPrediction near = predict(Op(s), *m);
  s.kv_len = 131072;
  const OpPrediction far = predict(Op(s), *m);
  EXPECT_DOUBLE_EQ(far.memory_energy.in(units::J), near.memory_energy.in(units::J));
  EXPECT_NEAR(far.time / near.time, 1, 0.02);
}

/// What a whole decode writes: its results once, whichever launch does.
void expect_results_once(const AttentionChoice& c, double rows, double v_dim) {
  ASSERT_TRUE(c.combines);
  EXPECT_GT(c.plan.splits, 1);
  EXPECT_EQ(c.main.dram_write.in(units::B), 0);
  EXPECT_DOUBLE_EQ(c.combine.dram_write.in(units::B), rows * v_dim * 2);
  EXPECT_EQ(c.combine.dram_read.in(units::B), 0);
}

/// 128 heads in two CTAs, 6400 keys: 10 splits each give 20 CTAs to 10 SMs.
TEST(DecodeTraffic, SplitLatentAttentionWritesItsResultsOnce) {
  const AttentionChoice c = plan_mla_decode(MlaDecode{1, 128, 6400, 512, 64}, *toy_machine());
  EXPECT_EQ(c.plan.splits, 10);
  expect_results_once(c, 128, 512);
}

TEST(DecodeTraffic, SplitFlashDecodeWritesItsResultsOnce) {
  expect_results_once(plan_decode(AttentionDecode{1, 32, 2, 128, 128, 16384}, *toy_flash()), 32, 128);
}

TEST(DecodeTraffic, OurSplitDecodeWritesItsResultsOnce) {
  Calibration c = toy_calibration();
  for (const char* family : {"own.attention_decode", "own.combine", "own.rowwise"})
    c.families[family] = c.families["library.attention_decode"];
  const auto m = toy_machine(toy_gpu(), c, KernelSet::own);
  const AttentionChoice split = plan_decode(AttentionDecode{1, 8, 1, 128, 128, 16384}, *m);
  ASSERT_TRUE(split.family->own);
  expect_results_once(split, 8, 128);
  // enough streams for the SMs: no splits, and the launch writes what it has
  const AttentionChoice whole = plan_decode(AttentionDecode{40, 8, 1, 128, 128, 256}, *m);
  ASSERT_FALSE(whole.combines);
  EXPECT_DOUBLE_EQ(whole.main.dram_write.in(units::B), 40 * 8 * 128 * 2);
}

/// 10 splits leave 128 x 10 rows of 512 values and a log-sum in fp32, 2.6 MB: beyond an L2 of 2 MiB they go to DRAM and
/// come back.
TEST(DecodeTraffic, PartialResultsBeyondL2GoThroughDram) {
  Gpu gpu = toy_gpu();
  gpu.l2.size = 2.0 * units::MiB;
  const AttentionChoice c = plan_mla_decode(MlaDecode{1, 128, 6400, 512, 64}, *toy_machine(gpu));
  const double partials = 128 * 10 * 513 * 4;
  EXPECT_DOUBLE_EQ(c.combine.dram_read.in(units::B), partials);
  EXPECT_DOUBLE_EQ(c.combine.dram_write.in(units::B), partials + 128 * 512 * 2);
}

}  // namespace
}  // namespace plumbline
