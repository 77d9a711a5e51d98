// TensorRT-LLM's rules for decode attention, by hand on the toy GPU (10 SMs) and against what its kernels could do.
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <map>
#include <string>
#include <utility>

#include "model/engine/timing.hpp"
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
  EXPECT_EQ(packed([](AttentionDecode& s) { s.kv_dtype = DType::fp8; }), 8) << "not on file: as 16 bits";
  EXPECT_EQ(packed([](AttentionDecode& s) { s.qk_dim = s.v_dim = 120; }), 1);
  EXPECT_EQ(packed([](AttentionDecode& s) { s.qk_dim = s.v_dim = 272; }), 1);
  EXPECT_EQ(packed([](AttentionDecode& s) { s.v_dim = 64; }), 1);
  EXPECT_EQ(packed([](AttentionDecode& s) { s.page = 24; }), 1);
  EXPECT_EQ(packed([](AttentionDecode& s) { s.q_heads = 8 * 33; }), 1);
  EXPECT_EQ(planned(toy_with(MatrixUnit::mma_sync, AsyncCopy::none), taken).plan.packed_heads, 1);
}

/// 6 query heads on 10 SMs: two CTAs each, rounded up, as long as each has 1024 / 16 x 8 = 512 keys of 128 columns (the new token
/// and one more are counted). 14 heads are too many for 1024 threads each, 40 for 512.
TEST(TrtLlmRules, QueryHeadsAreCutToFillTheSms) {
  const Machine m = toy_with(MatrixUnit::wgmma, AsyncCopy::tma);
  EXPECT_EQ(planned(m, decode(1, 6, 6, 4096)).plan.splits, 2);
  EXPECT_EQ(planned(m, decode(1, 6, 6, 510)).plan.splits, 1);
  EXPECT_EQ(planned(m, decode(1, 6, 6, 511)).plan.splits, 2);
  EXPECT_EQ(planned(m, decode(2, 6, 6, 4096)).plan.splits, 1);
  for (const auto& [heads, ctas_per_sm] : {std::pair(6, 1), std::pair(13, 1), std::pair(14, 2), std::pair(40, 4)}) {
    const Demand d = planned(m, decode(1, heads, heads, 100)).main;
    EXPECT_EQ(d.plan.ctas_per_sm, ctas_per_sm) << heads;
    EXPECT_EQ(d.plan.threads * d.plan.ctas_per_sm, 1024) << heads;
  }
}

/// The toy card with scalars of the kernel for fp8 caches: a CTA starts in 3000 clocks, a tile of 64 keys takes 1000, each part
/// of the keys 100 to be merged; 500 clocks are issued for a CTA and 200 for a tile.
Machine toy_with_wgmma_decode() {
  Gpu gpu = toy_gpu();
  gpu.sm.matrix_unit = MatrixUnit::wgmma;
  gpu.sm.async_copy = AsyncCopy::tma;
  Calibration c = with_starts();
  auto& family = c.families["library.attention_decode_8bit"] = c.families["library.attention_decode"];
  family["start_clk"] = Scalar{3000, "toy"};
  family["step_clk"] = Scalar{1000, "toy"};
  family["merge_clk"] = Scalar{100, "toy"};
  family["issue_start_clk"] = Scalar{500, "toy"};
  family["issue_step_clk"] = Scalar{200, "toy"};
  return toy_machine(gpu, c);
}

AttentionDecode from_fp8(AttentionDecode s) {
  s.kv_dtype = DType::fp8;
  return s;
}

/// The plain kernel does not know fp8 caches, so that one CTA is enough where a cache of 16 bits asks for a quarter of the SMs.
TEST(TrtLlmRules, Fp8CachesAlwaysRunTheKernelForWgmma) {
  const Machine m = toy_with_wgmma_decode();
  EXPECT_EQ(planned(m, decode(1, 8, 1, 100)).plan.packed_heads, 1);
  const AttentionChoice one = planned(m, from_fp8(decode(1, 8, 1, 100)));
  EXPECT_EQ(one.plan.packed_heads, 8);
  EXPECT_EQ(one.main.plan.threads, 384);
  EXPECT_EQ(planned(m, from_fp8(decode(1, 8, 8, 100))).plan.packed_heads, 1) << "a query head a KV head";
  AttentionDecode int8 = decode(8, 8, 1, 4096);
  int8.kv_dtype = DType::int8;
  EXPECT_NE(planned(m, int8).main.plan.threads, 384) << "of fp8 caches alone";
}

/// 8 sequences of 512 keys on 10 SMs: 4 parts each, of which a CTA has 513 / 64 = 9 tiles in 4, so 3. It lives 3000 + 3 x 1000
/// clocks; 1.3 x (500 + 3 x 200) are issued, 8 heads of 128 being the unit; the merge reads 8 + 4 parts.
TEST(TrtLlmRules, AKernelForWgmmaByHand) {
  const Machine m = toy_with_wgmma_decode();
  const AttentionChoice c = planned(m, from_fp8(decode(8, 8, 1, 512)));
  EXPECT_EQ(c.plan.splits, 4);
  EXPECT_EQ(c.main.plan.ctas, 32);
  EXPECT_EQ(c.main.plan.ctas_per_sm, 3);
  EXPECT_DOUBLE_EQ(c.main.plan.steps, 3);
  EXPECT_NEAR(3 * c.main.step_latency * m.rates().clock, 3 * 1000, 1e-6);
  EXPECT_NEAR(c.main.issue_clk, 362 + 75, 1e-9) << "counted";
  EXPECT_NEAR(c.main.serial_latency * m.rates().clock, 2 * 3000 + 1200, 1e-6) << "32 CTAs on 30 places start twice";
  EXPECT_FALSE(c.prepares);
}

/// Where it was not measured the grouped kernel's scalars stand in: a start of 2000 clocks, 500 for a link of 16-bit
/// keys, of which 838 to 1460 were counted, 1000 to hand a part on and for 4 parts a turn of the merge, 200 ns of L2; and its
/// call's first launch less, 1 us of gap and 2 us of its own.
TEST(TrtLlmRules, TheGroupedKernelLendsTheOneForWgmmaItsClocks) {
  Calibration c = with_starts();
  c.families["library.attention_decode"]["fixed_s"] = Scalar{5e-6, "toy"};
  c.families["library.attention_prepare"]["fixed_s"] = Scalar{2e-6, "toy"};
  c.machine["gap_graph_s"] = Scalar{1e-6, "toy"};
  const Machine m = toy_machine(toy_gpu(), c);
  const AttentionChoice lent = planned(m, from_fp8(decode(8, 8, 1, 512)));
  EXPECT_EQ(lent.main.plan.ctas, 32);
  EXPECT_EQ(lent.main.plan.threads, 384);
  EXPECT_NEAR(lent.main.step_latency * m.rates().clock, 500.0 * 838 / 1460, 1e-6);
  EXPECT_NEAR(lent.main.serial_latency.in(units::ns), 2 * 2000 + 1000 + 200 - 3000, 1e-6);
}

/// As many CTAs an SM as their registers leave room for; more heads lengthen a tile's chain, wider ones what is issued. A window hides whole tiles, and parts without keys return at once.
TEST(TrtLlmRules, AKernelForWgmmaGoesWithHeadsWidthAndWindow) {
  const Machine m = toy_with_wgmma_decode();
  const auto of = [&](std::int64_t heads, std::int64_t width, std::int64_t window = 0) {
    AttentionDecode s = from_fp8(decode(8, heads, 1, 4096));
    s.qk_dim = s.v_dim = width;
    s.window = window;
    return planned(m, s);
  };
  EXPECT_EQ(of(8, 64).main.plan.ctas_per_sm, 4);
  EXPECT_EQ(of(6, 64).main.plan.ctas_per_sm, 3) << "no power of two";
  EXPECT_EQ(of(8, 128).main.plan.ctas_per_sm, 3);
  EXPECT_EQ(of(17, 128).main.plan.ctas_per_sm, 2);
  EXPECT_EQ(of(8, 256).main.plan.ctas_per_sm, 2);
  EXPECT_EQ(of(9, 192).main.plan.ctas_per_sm, 1) << "192 lie in 256";
  EXPECT_GT(of(16, 128).main.step_latency, of(8, 128).main.step_latency);
  EXPECT_GT(of(8, 256).main.issue_clk, of(8, 128).main.issue_clk);
  EXPECT_EQ(of(8, 128).main.plan.ctas, 8 * 10) << "8 CTAs an SM";
  EXPECT_EQ(of(8, 128, 128).main.plan.ctas, 8 * 3) << "3 tiles are visible: 4097 keys end one key behind a tile";
  EXPECT_TRUE(of(8, 64).prepares) << "as with attention sinks";
}

AttentionChoice prompt(const Machine& m, DType dtype, std::int64_t width) {
  AttentionPrefill s{1, 20, 20, width, width, 6400, 6400};
  s.dtype = s.kv_dtype = dtype;
  return plan_trtllm_prefill(s, false, m.rates(), families_of(m, "trtllm"));
}

/// On SMs of 100 KB blocks take what was counted, and 1.2 of it, each of two CTAs or one; 8 bits have tiles of their own.
TEST(TrtLlmRules, PromptsOfSmallSmsTakeWhatWasCounted) {
  Gpu gpu = toy_gpu();
  gpu.sm.matrix_unit = MatrixUnit::mma_sync;
  gpu.sm.async_copy = AsyncCopy::cp_async;
  gpu.sm.smem = gpu.sm.smem_per_block = 100.0 * units::KiB;
  gpu.sm.tensor_flop_per_clk[DType::fp8] = 8000;
  const Machine m = toy_machine(gpu, with_starts());
  EXPECT_DOUBLE_EQ(prompt(m, DType::bf16, 128).main.chain_clk, 2 * 1.2 * 1695);
  EXPECT_DOUBLE_EQ(prompt(m, DType::bf16, 128).main.exposed_clk, 0);
  EXPECT_DOUBLE_EQ(prompt(m, DType::fp8, 128).main.chain_clk, 2 * 1.2 * 1025);
  EXPECT_DOUBLE_EQ(prompt(m, DType::fp8, 256).main.chain_clk, 1.2 * 4560) << "64 KiB: one CTA";
  EXPECT_EQ(prompt(m, DType::fp8, 64).plan.q_tile, 128);
  EXPECT_EQ(prompt(m, DType::fp8, 256).plan.kv_tile, 32);
  EXPECT_EQ(prompt(m, DType::bf16, 256).plan.kv_tile, 128);
}

/// Links on such SMs, of 500 clocks on an A100: 16 bits of 128 columns 1.58 times as long, 8 bits 2.34.
TEST(TrtLlmRules, LinksOfSmallSmsTakeWhatWasCounted) {
  Gpu gpu = toy_gpu();
  gpu.sm.matrix_unit = MatrixUnit::mma_sync;
  gpu.sm.async_copy = AsyncCopy::cp_async;
  const Machine large = toy_machine(gpu, with_starts());
  gpu.sm.smem = gpu.sm.smem_per_block = 100.0 * units::KiB;
  const Machine small = toy_machine(gpu, with_starts());
  const AttentionDecode s = decode(10, 8, 1, 127);  // 128 keys: a link of 128 columns, one CTA an SM
  const auto link_clk = [](const Machine& m, const AttentionDecode& a) {
    const AttentionChoice c = planned(m, a);
    return c.main.step_latency * c.main.plan.steps * m.rates().clock;
  };
  EXPECT_NEAR(link_clk(large, s), 500, 1e-6);
  EXPECT_NEAR(link_clk(small, s), 1.58 * 500, 1e-6);
  EXPECT_NEAR(link_clk(small, from_fp8(s)), 2.34 * 500, 1e-6);
}

/// wgmma's prompts by mma.sync's scalars: no softmax is left over, a block takes what was counted, in the links' proportion.
TEST(TrtLlmRules, PromptsForWgmmaByAnotherKernelsScalars) {
  Gpu gpu = toy_gpu();
  gpu.sm.matrix_unit = MatrixUnit::wgmma;
  gpu.sm.async_copy = AsyncCopy::tma;
  Calibration c = with_starts();
  c.families["library.attention_prefill"]["step_clk"] = Scalar{0, "toy"};
  c.families["library.attention_prefill"]["exposed"] = Scalar{0.8, "toy"};
  const AttentionChoice lent = prompt(toy_machine(gpu, c), DType::bf16, 128);
  EXPECT_NEAR(lent.main.chain_clk, 2740 * 500.0 / 1460, 1e-9);
  EXPECT_DOUBLE_EQ(lent.main.exposed_clk, 0);
  c.families["library.attention_prefill"]["step_clk"] = Scalar{100, "toy"};
  EXPECT_DOUBLE_EQ(prompt(toy_machine(gpu, c), DType::bf16, 128).main.chain_clk, 0) << "its own";
}

/// tcgen05's kernel on 10 SMs: up to 16 query heads a KV head, one too; no more parts than leave a CTA for each SM, and
/// none of fewer than 256 keys; four tiles of 128 keys x 128 x 2 bytes are on their way; a launch rotates before.
TEST(TrtLlmRules, TensorMemoryTakesAllGroupsUpTo16) {
  const Machine m = toy_with(MatrixUnit::tcgen05, AsyncCopy::tma);
  const AttentionChoice one = planned(m, decode(1, 2, 2, 4096));
  EXPECT_EQ(one.plan.splits, 5);
  EXPECT_DOUBLE_EQ(one.main.in_flight.in(units::B), 4 * 128 * 128 * 2);
  EXPECT_TRUE(one.prepares);
  EXPECT_EQ(planned(m, decode(1, 32, 2, 4096)).plan.splits, 5);
  EXPECT_EQ(planned(m, decode(1, 2, 2, 513)).plan.splits, 3);
  EXPECT_EQ(planned(m, decode(6, 2, 2, 4096)).plan.splits, 1);
  EXPECT_EQ(planned(m, decode(1, 34, 2, 4096)).main.plan.threads, 512);
  EXPECT_FALSE(planned(m, decode(1, 34, 2, 4096)).prepares);
}

/// It is compiled for queries of 16 and of 8 bits. Wider ones take the plain kernel, in their own type whatever the
/// cache's: a CTA for each of 4 x 52 heads, whose steps of 64 keys in 32 columns are 64 x 2 x (32 + 32) FLOP, 100 a
/// clock in fp64.
TEST(TrtLlmRules, WideQueriesTakeNoTensorMemory) {
  const Machine m = toy_with(MatrixUnit::tcgen05, AsyncCopy::tma);
  AttentionDecode s{4, 52, 4, 32, 32, 46, 1};
  s.append = 0;
  s.kv_dtype = DType::fp8;
  EXPECT_EQ(planned(m, s).main.plan.threads, 512);
  EXPECT_EQ(planned(m, s).main.plan.ctas, 4 * 4);
  s.dtype = DType::fp64;
  const AttentionChoice plain = planned(m, s);
  EXPECT_EQ(plain.main.plan.ctas, 4 * 52);
  EXPECT_DOUBLE_EQ(plain.main.tensor_clk, 64.0 * 2 * 64 / 100);
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

/// The packed kernel takes query heads 16 at a time through a step: as long again for 16 more. 0.3 of a start goes with them too.
/// 64 CTAs on 10 SMs take 7 turns; the first start of all lies before what overlaps.
TEST(TrtLlmRules, ChainsOfPackedDecodeGrowWithRows) {
  const Machine m = toy_with(MatrixUnit::wgmma, AsyncCopy::tma);
  const auto planned_for = [&](std::int64_t q_heads) { return planned(m, decode(64, q_heads, 1, 8191)).main; };
  const auto start = [&](std::int64_t q_heads) { return planned_for(q_heads).serial_latency * m.rates().clock; };
  const auto walks = [&](std::int64_t q_heads) {
    const Demand d = planned_for(q_heads);
    return (d.step_latency * m.rates().clock * d.plan.steps - start(q_heads) * 6 / 7) / 500;  // in units of step_clk
  };
  EXPECT_NEAR(walks(32) / walks(16), 2, 1e-9);
  EXPECT_NEAR(walks(17) / walks(16), 2, 1e-9);
  EXPECT_NEAR(start(16), 2000, 1e-6);
  EXPECT_NEAR(start(32), 1.3 * 2000, 1e-6);
}

/// 8 sequences of 512 keys on 10 SMs: 4 parts each, two of which have a tile of 256. Those live 2000 clocks to start, 1000 to hand
/// their results on and 2 links of 500; the others none (the toy has no number for them), so that 16 CTAs are left, of which an
/// SM takes two at most.
TEST(TrtLlmRules, LongAndShortPartsTakeTurns) {
  const Machine m = toy_with(MatrixUnit::wgmma, AsyncCopy::tma);
  const AttentionChoice c = planned(m, decode(8, 8, 1, 511));
  ASSERT_EQ(c.plan.splits, 4);
  const Demand& d = c.main;
  const double waves = 4;  // of 32 CTAs
  EXPECT_NEAR(d.step_latency * m.rates().clock * d.plan.steps * waves, 2 * 4000 - 2000, 1e-6);
}

/// 82 CTAs, four an SM, on 10 SMs: the last two read alone, as long as its own chain or what it issues takes.
TEST(TrtLlmRules, ALastWaveOfThePlainKernelTakesItsOwnTime) {
  const Machine m = toy_with(MatrixUnit::wgmma, AsyncCopy::tma);
  Demand d = planned(m, decode(1, 82, 82, 65535)).main;  // CTAs of 256 threads, four an SM
  ASSERT_EQ(d.plan.ctas, 82);
  ASSERT_TRUE(d.ends_alone);
  const FamilyScalars& family = families_of(m, "trtllm")[trtllm::kSingle];
  d.step_latency = 100.0 * units::us;
  const Seconds apart = price(d, m.rates(), family).by_resource[Resource::dram];
  d.ends_alone = false;
  EXPECT_GT(apart, price(d, m.rates(), family).by_resource[Resource::dram]);
}

/// A tuner's entry is missing: the first tile of the list runs, of what a tuner would pick from.
TEST(UntunedTime, OfExpertsThatATunerPicks) {
  Moe s{};
  s.experts = 128;
  s.topk = 8;
  s.tokens = 256;
  s.hidden = 2048;
  s.width = 768;
  const auto untuned = [&](const Op& op, const char* stack) {
    const Machine m = make_machine(load_gpu("h200_sxm"), MachineOptions{stack});
    OpPrediction p;
    Predictor predictor;
    predictor.predict(op, m, p);
    const auto time = untuned_time(op, p, m);
    return time ? *time / p.time : 0;
  };
  EXPECT_GT(untuned(s, "trt-llm"), 1.01);
  EXPECT_EQ(untuned(s, "vllm"), 0) << "by Triton in 16 bits";
  EXPECT_EQ(untuned(Gemm{64, 64, 64, 1, {}, false}, "trt-llm"), 0);
}

/// One sequence of 4096 tokens and 8 heads with a cache of that type.
AttentionPrefill prefill(std::int64_t width, std::int64_t value_width, DType cache) {
  AttentionPrefill s{1, 8, 8, width, value_width, 4096, 4096};
  s.kv_dtype = cache;
  return s;
}

/// Kept, as what is planned points to its families.
const Machine& machine_of(const std::string& card) {
  static std::map<std::string, Machine> kept;
  const auto found = kept.find(card);
  return found != kept.end()
             ? found->second
             : kept.emplace(card, make_machine(load_gpu(card), MachineOptions{"trt-llm"})).first->second;
}

AttentionChoice planned(const char* card, const AttentionPrefill& s, bool appends = true) {
  const Machine& m = machine_of(card);
  return plan_trtllm_prefill(s, appends, m.rates(), families_of(m, "trtllm"));
}

/// Paged kernels have operands of one type: fp8 where the cache is and tensor units take it.
TEST(TrtLlmRules, PrefillMultipliesInTheTypeOfAnFp8Cache) {
  const auto math = [](const char* card, DType cache) { return planned(card, prefill(128, 128, cache)).math; };
  EXPECT_EQ(math("h200_sxm", DType::fp8), DType::fp8);
  EXPECT_EQ(math("l40s", DType::fp8), DType::fp8);
  EXPECT_EQ(math("a100_sxm", DType::fp8), DType::bf16);
  EXPECT_EQ(math("h200_sxm", DType::int8), DType::bf16);
  EXPECT_EQ(math("h200_sxm", DType::bf16), DType::bf16);
  const auto keys = [](std::int64_t width, std::int64_t value_width) {
    return planned("h200_sxm", prefill(width, value_width, DType::fp8)).plan.kv_tile;
  };
  EXPECT_EQ(keys(64, 64), 256);
  EXPECT_EQ(keys(128, 128), 256);
  EXPECT_EQ(keys(192, 192), 128);
  EXPECT_EQ(keys(256, 256), 128);
  EXPECT_EQ(keys(192, 128), 128);
}

/// The pass writes queries, keys and values in 8 bits, which the attention reads; without a pass nobody has narrowed queries.
TEST(TrtLlmRules, ThePassNarrowsWhatFp8AttentionReads) {
  const AttentionPrefill s = prefill(128, 128, DType::fp8);
  constexpr double kHeads = 4096.0 * 8 * 128;  // of queries, of keys, of values
  const AttentionChoice c = planned("h200_sxm", s);
  EXPECT_DOUBLE_EQ(c.prepare.dram_read.in(units::B), 3 * kHeads * 2);
  EXPECT_DOUBLE_EQ(c.prepare.dram_write.in(units::B), 3 * kHeads);
  EXPECT_DOUBLE_EQ(c.main.dram_read.in(units::B), 3 * kHeads);
  EXPECT_DOUBLE_EQ(c.main.dram_write.in(units::B), kHeads * 2);
  EXPECT_FALSE(c.quantizes);
  EXPECT_DOUBLE_EQ(planned("h200_sxm", s, false).main.dram_read.in(units::B), kHeads * 2 + 2 * kHeads);
}

/// 64 of 192 columns are rotated: in queries, in each head's keys, and the narrow row of 320 goes to the cache; 1.0 (A100)
/// copies keys and values of all heads. In 8 bits a launch of its own rounds all operands.
TEST(TrtLlmRules, LatentKeysAndValuesStayWhereTheirProjectionLeftThem) {
  constexpr double kTokens = 4096;
  const AttentionChoice c = planned("h200_sxm", prefill(192, 128, DType::bf16));
  EXPECT_DOUBLE_EQ(c.prepare.dram_write.in(units::B), kTokens * (8 * (64 + 64) + 320) * 2);
  EXPECT_FALSE(c.quantizes);
  EXPECT_DOUBLE_EQ(planned("a100_sxm", prefill(192, 128, DType::bf16)).prepare.dram_write.in(units::B),
                   kTokens * 8 * (64 + 320) * 2);
  const AttentionChoice narrow = planned("h200_sxm", prefill(192, 128, DType::fp8));
  ASSERT_TRUE(narrow.quantizes);
  EXPECT_DOUBLE_EQ(narrow.quantize.dram_read.in(units::B), kTokens * 8 * (192 + 192 + 128) * 2);
  EXPECT_DOUBLE_EQ(narrow.quantize.dram_write.in(units::B), kTokens * 8 * (192 + 192 + 128));
}

/// The diagonal crosses one block of 256 keys, a window's begin another; each of both then takes 2.5 times as long in 8 bits.
TEST(TrtLlmRules, MasksOfWindowsTakeLongerInFp8) {
  const Machine m = make_machine(load_gpu("h200_sxm"), MachineOptions{"trt-llm"});
  const double mask = mask_clk(128 * 256, m.rates());
  // over 32 tiles of the whole sequence the first two visit less than two blocks
  const auto more = [&](DType cache) {
    AttentionPrefill s = prefill(64, 64, cache);
    const double whole = planned("h200_sxm", s).main.once_clk;
    s.window = 128;
    return planned("h200_sxm", s).main.once_clk - whole;
  };
  const double narrow = more(DType::fp8), wide = more(DType::bf16);
  EXPECT_NEAR(wide / mask, 1, 0.1);
  EXPECT_NEAR((narrow - wide) / mask, 1.5 * (1 + wide / mask), 1e-9);
}

/// wgmma's chain is that of 32 KiB of keys and values, 256 of both 64 wide; rows of 192 bytes lie in 256.
TEST(TrtLlmRules, TheChainOfAnFp8BlockGrowsWithItsBytes) {
  const Machine m = make_machine(load_gpu("h200_sxm"), MachineOptions{"trt-llm"});
  const FamilyScalars& family = families_of(m, "trtllm")[trtllm::kPrefill8bit];
  const auto chains = [&](std::int64_t width, std::int64_t value_width) {
    const AttentionChoice c = planned("h200_sxm", prefill(width, value_width, DType::fp8));
    EXPECT_EQ(c.family->name, family.name);
    return (c.main.exposed_clk - family.exposed * (c.main.sfu_clk + c.main.fp32_clk)) / family.step_clk;
  };
  EXPECT_NEAR(chains(64, 64), 1, 1e-9);
  EXPECT_NEAR(chains(128, 128), 2, 1e-9);
  EXPECT_NEAR(chains(192, 192), 2, 1e-9);
  EXPECT_NEAR(chains(256, 256), 2, 1e-9);
  EXPECT_NEAR(chains(192, 128), 1.5, 1e-9);
}

}  // namespace
}  // namespace plumbline::trtllm_rules_test
