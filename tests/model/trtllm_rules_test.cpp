// TensorRT-LLM's rules for decode attention, by hand on the toy GPU (10 SMs) and against what its kernels could do.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "model/report/rule_loss.hpp"
#include "model/stacks/trtllm/plan_attention.hpp"
#include "tests/support/planners.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline::trtllm_rules_test {
namespace {

using namespace testing_support;

/// Scalars that make a CTA cost something, so that kernels and cuts differ.
Calibration with_starts() {
  Calibration c = toy_calibration();
  for (const char* family : {"library.attention_decode", "library.attention_decode_single"}) {
    c.families[family]["start_clk"] = Scalar{2000, "toy"};
    c.families[family]["step_clk"] = Scalar{500, "toy"};
    c.families[family]["merge_clk"] = Scalar{1000, "toy"};
  }
  return c;
}

Machine toy_with(MatrixUnit unit, AsyncCopy copy) {
  Gpu gpu = toy_gpu();
  gpu.sm.matrix_unit = unit;
  gpu.sm.async_copy = copy;
  return toy_machine(gpu, with_starts());
}

AttentionChoice planned(const Machine& m, const AttentionDecode& s, Cutting cutting = Cutting::by_rule) {
  return plan_trtllm_decode(s, m.rates(), families_of(m, "trtllm"), KeyCutting{cutting});
}

AttentionDecode decode(std::int64_t batch, std::int64_t q_heads, std::int64_t kv_heads, std::int64_t context) {
  return AttentionDecode{batch, q_heads, kv_heads, 128, 128, context};
}

/// 2 KV heads of one block of 128 keys are fewer than a quarter of 10 SMs: a CTA a query head; 3 are enough to pack.
TEST(TrtLlmRules, PackedHeadsNeedAQuarterOfTheSms) {
  const Machine m = toy_with(MatrixUnit::wgmma, AsyncCopy::tma);
  EXPECT_EQ(planned(m, decode(1, 8, 2, 100)).plan.packed_heads, 1);
  EXPECT_EQ(planned(m, decode(3, 8, 1, 100)).plan.packed_heads, 8);
}

/// The packed kernel takes 16-bit queries, whole 16 columns up to 256, pages of 8 to 128 keys, groups up to 32 heads, and
/// needs cp.async: else each query head has its CTA, however many there are.
TEST(TrtLlmRules, PackedHeadsAreOfWhatTheKernelIsCompiledFor) {
  const Machine m = toy_with(MatrixUnit::wgmma, AsyncCopy::tma);
  const AttentionDecode taken = decode(8, 64, 8, 4096);
  ASSERT_EQ(planned(m, taken).plan.packed_heads, 8);
  const auto packed = [&](auto change) {
    AttentionDecode s = taken;
    change(s);
    return planned(m, s).plan.packed_heads;
  };
  EXPECT_EQ(packed([](AttentionDecode& s) { s.dtype = DType::fp8; }), 1);
  EXPECT_EQ(packed([](AttentionDecode& s) { s.kv_dtype = DType::fp8; }), 8);
  EXPECT_EQ(packed([](AttentionDecode& s) { s.qk_dim = s.v_dim = 120; }), 1);
  EXPECT_EQ(packed([](AttentionDecode& s) { s.qk_dim = s.v_dim = 272; }), 1);
  EXPECT_EQ(packed([](AttentionDecode& s) { s.v_dim = 64; }), 1);
  EXPECT_EQ(packed([](AttentionDecode& s) { s.page = 24; }), 1);
  EXPECT_EQ(packed([](AttentionDecode& s) { s.q_heads = 8 * 33; }), 1);
  EXPECT_EQ(planned(toy_with(MatrixUnit::mma_sync, AsyncCopy::none), taken).plan.packed_heads, 1);
}

/// 6 query heads on 10 SMs: two CTAs each, rounded up, as long as each has 512 / 16 x 8 = 256 keys of 128 columns. On
/// cards of mma.sync two of them share an SM.
TEST(TrtLlmRules, QueryHeadsAreCutToFillTheSms) {
  const Machine m = toy_with(MatrixUnit::wgmma, AsyncCopy::tma);
  EXPECT_EQ(planned(m, decode(1, 6, 6, 4096)).plan.splits, 2);
  EXPECT_EQ(planned(m, decode(1, 6, 6, 255)).plan.splits, 1);
  EXPECT_EQ(planned(m, decode(1, 6, 6, 256)).plan.splits, 2);
  EXPECT_EQ(planned(m, decode(2, 6, 6, 4096)).plan.splits, 1);
  EXPECT_EQ(planned(m, decode(1, 6, 6, 4096)).main.plan.ctas_per_sm, 1);
  EXPECT_EQ(planned(toy_with(MatrixUnit::mma_sync, AsyncCopy::cp_async), decode(1, 6, 6, 4096)).main.plan.ctas_per_sm,
            2);
}

/// By time no cut of the rule's is cheaper but for counts of parts that are not tried, and more SMs are never slower.
RC_GTEST_PROP(TrtLlmRules, ByTimeMoreSmsAreNeverSlower, ()) {
  Gpu gpu = random_gpu();
  const Calibration calibration = random_calibration();
  const AttentionDecode s{whole_between(1, 64), 8 * whole_between(1, 8), whole_between(1, 8), 128, 128, random_dim(13)};
  RC_PRE(s.q_heads % s.kv_heads == 0);
  const auto time_on = [&](const Gpu& card) {
    const Machine m = toy_machine(card, calibration);
    return time_of(planned(m, s, Cutting::by_time), m.rates());
  };
  const Seconds before = time_on(gpu);
  gpu.sm_count += whole_between(1, 2 * gpu.sm_count);
  RC_ASSERT(time_on(gpu) <= before * (1 + 1e-9));
}

/// What measured rows show: 16 sequences of one KV head are too few for the packed kernel, so that twice as many take
/// less time (25.9 and 11.9 us with 127 keys on an A100, published rows of TensorRT-LLM 1.0).
TEST(RuleLoss, SaysWhichRuleLosesAndWhatWouldBeCheaper) {
  const Machine a100 = make_machine(load_gpu("a100_sxm"), MachineOptions{"trt-llm"});
  const auto loss = rule_loss(decode(16, 8, 1, 127), a100);
  ASSERT_TRUE(loss.has_value());
  EXPECT_LT(loss->cheapest.time, loss->picked.time);
  const std::string text = rule_text(*loss);
  EXPECT_NE(text.find("TensorRT-LLM's choice of the decode kernel"), std::string::npos) << text;
  EXPECT_NE(text.find("8 packed query heads, 1 split would take"), std::string::npos) << text;
  EXPECT_NE(text.find("mayHavePerfGain()"), std::string::npos) << text;
  EXPECT_FALSE(rule_loss(decode(16, 8, 1, 127), make_machine(load_gpu("a100_sxm"), MachineOptions{"own"})))
      << "cut by time there";
  EXPECT_FALSE(rule_loss(Gemm{64, 64, 64, 1, {}, false}, a100)) << "no rule";
}

struct Tiles {
  std::int64_t queries, keys, ctas;
  bool operator==(const Tiles&) const = default;
};
Tiles tiles_on(const char* card, std::int64_t width, std::int64_t length, std::int64_t value_width = 0) {
  const Machine m = make_machine(load_gpu(card), MachineOptions{"trt-llm"});
  const AttentionPrefill s{1, 8, 8, width, value_width > 0 ? value_width : width, length, length};
  const AttentionChoice c = plan_trtllm_prefill(s, false, m.rates(), families_of(m, "trtllm"));
  return {c.plan.q_tile, c.plan.kv_tile, c.main.plan.ctas_per_sm};
}

/// The library's list of mma.sync kernels, by hand: 80 KiB a CTA fit twice into 164 KiB and once into 100.
TEST(TrtLlmRules, PrefillTilesOfMmaSyncGoWithSharedMemory) {
  EXPECT_EQ(tiles_on("a100_sxm", 128, 4096), (Tiles{64, 128, 2}));
  EXPECT_EQ(tiles_on("a100_sxm", 64, 4096), (Tiles{128, 128, 2}));
  EXPECT_EQ(tiles_on("a100_sxm", 256, 4096), (Tiles{64, 128, 1}));
  EXPECT_EQ(tiles_on("a100_sxm", 128, 64), (Tiles{64, 32, 2}));
  EXPECT_EQ(tiles_on("a100_sxm", 192, 4096, 128), (Tiles{64, 64, 2}));
  for (const char* card : {"l40s", "a40", "rtx_pro_6000"}) {
    EXPECT_EQ(tiles_on(card, 128, 4096), (Tiles{64, 32, 2})) << card;
    EXPECT_EQ(tiles_on(card, 32, 4096), (Tiles{64, 64, 2})) << card;
    EXPECT_EQ(tiles_on(card, 256, 4096), (Tiles{64, 128, 1})) << card;
  }
}

/// 512 columns of tensor memory hold two tiles' scores and results up to 128 wide.
TEST(TrtLlmRules, TwoTilesTakeTurnsInTensorMemory) {
  EXPECT_EQ(tiles_on("b200_sxm", 128, 4096), (Tiles{256, 128, 1}));
  EXPECT_EQ(tiles_on("b200_sxm", 192, 4096, 128), (Tiles{256, 128, 1}));
  EXPECT_EQ(tiles_on("b200_sxm", 256, 4096), (Tiles{128, 128, 1}));
  EXPECT_EQ(tiles_on("b200_sxm", 128, 100), (Tiles{128, 128, 1}));
  EXPECT_EQ(tiles_on("h200_sxm", 128, 4096), (Tiles{128, 128, 1}));
}

}  // namespace
}  // namespace plumbline::trtllm_rules_test
