// Demands of attention kernels by hand on the toy GPU: ours, FlashAttention's, latent decode's.
#include <gtest/gtest.h>

#include "model/stacks/flash_attention/plan_attention.hpp"
#include "model/stacks/own/plan_attention.hpp"
#include "model/stacks/trtllm/plan_attention.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline::attention_by_hand_test {
namespace {

using namespace testing_support;

class AttentionByHand : public ::testing::Test {
 protected:
  static Machine with_unit(MatrixUnit unit) {
    Gpu gpu = toy_gpu();
    gpu.sm.matrix_unit = unit;
    return toy_machine(gpu);
  }
  Machine machine_ = toy_machine();
  std::array<FamilyScalars, flash_attention::kAllFamilies> families_;
};

/// 64 queries of each of 20 heads against 6400 keys in blocks of 128. A block: 16384 scores; tensor 4 x 128^3 / 1000 clk;
/// exp 16384 / 16 = 1024 clk, which is what the softmax takes. Half of it is exposed. The first block's softmax hides
/// under nothing, and 64 rows of 256 bytes leave at 20 bytes a clock.
TEST_F(AttentionByHand, OurPrefill) {
  AttentionPrefill s{1, 20, 20, 128, 128, 64, 6400};
  s.causal = false;
  FamilyScalars family;
  family.exposed = 0.5;
  family.step = 30.0 * units::ns;
  const PrefillVariant variant{128, 128, 128, 1, false};
  const AttentionChoice c = plan_own_prefill(s, variant, machine_.rates(), family);
  const Demand& d = c.main;
  EXPECT_EQ(d.plan.ctas, 20);
  EXPECT_EQ(d.plan.threads, 384);
  EXPECT_EQ(d.plan.steps, 50);
  EXPECT_EQ(d.plan.longest, 50);
  EXPECT_DOUBLE_EQ(d.tensor_clk, 4.0 * 128 * 128 * 128 / 1000);
  EXPECT_DOUBLE_EQ(d.sfu_clk, 1024);
  EXPECT_DOUBLE_EQ(d.fp32_clk, 7.0 * 16384 / 128);
  EXPECT_DOUBLE_EQ(d.issue_clk, 8.0 * 16384 / 32 / 4);
  EXPECT_DOUBLE_EQ(d.smem_clk, 2.0 * 65536 / 128);
  EXPECT_DOUBLE_EQ(d.l2.in(units::B), 65536);
  EXPECT_DOUBLE_EQ(d.exposed_clk, 512);
  EXPECT_DOUBLE_EQ(d.once_clk, 1024 + 64 * 128 * 2 / 20.0);
  EXPECT_DOUBLE_EQ(d.step_latency.in(units::ns), 30);
  EXPECT_DOUBLE_EQ(d.serial_latency.in(units::us), 1);
  EXPECT_DOUBLE_EQ(d.dram_read.in(units::B), 20.0 * (64 * 128 + 6400 * 256) * 2);
  EXPECT_DOUBLE_EQ(d.dram_write.in(units::B), 20.0 * 64 * 128 * 2);
  EXPECT_FALSE(c.prepares || c.combines);
}

/// Where the tensor work of a block is shorter than its softmax, that is what can be exposed: at half of half the rate.
TEST_F(AttentionByHand, OurPrefillExposesTheShorterOfTensorWorkAndSoftmax) {
  Gpu gpu = toy_gpu();
  gpu.sm.tensor_flop_per_clk[DType::bf16] = 100000;
  FamilyScalars family;
  family.exposed = 1;
  family.efficiency = family.tensor_burst = 0.5;
  const Machine fast = toy_machine(gpu);
  const AttentionChoice c = plan_own_prefill(AttentionPrefill{1, 20, 20, 128, 128, 128, 6400},
                                             PrefillVariant{128, 128, 128, 1, true}, fast.rates(), family);
  EXPECT_DOUBLE_EQ(c.main.exposed_clk, 4 * 4.0 * 128 * 128 * 128 / 100000);
}

/// Of mma.sync, 128 queries of 128 in four warps against 64 keys a step: 8192 scores, products of 4 x 8192 x 128 FLOP at
/// 2723 / 4096 of 1000 a clock; exp 512 clk; four lane operations a score. A step reads the queries and, by each warp, keys and
/// values: 32 + 4 x 32 KB, and 32 KB come in. Instructions: 4.5 a score and lane, 1024 products, 384 of shared memory. The
/// chain: products, 64 clk of maxima, 512 of exponentials, 40, 29 for each of 8 columns of fragments and of 4 x 8 of values, 9
/// for each of 16 copies of a warp. All 20 CTAs begin with 32 KB of queries and 32 KB of keys and values. A CTA of two warps
/// leaves half of the SM alone.
TEST_F(AttentionByHand, OurPortablePrefill) {
  AttentionPrefill s{1, 20, 20, 128, 128, 128, 6400};
  s.causal = false;
  FamilyScalars family;
  family.step_clk = 40;
  const AttentionPlan wide{128, 64, 1, 1, 2}, narrow{64, 32, 1, 1, 2};
  const Demand d = plan_portable_prefill(s, machine_.rates(), family, &wide, {}).main;
  EXPECT_EQ(d.plan.ctas, 20);
  EXPECT_EQ(d.plan.ctas_per_sm, 2);
  EXPECT_EQ(d.plan.threads, 128);
  EXPECT_EQ(d.plan.steps, 100);
  EXPECT_DOUBLE_EQ(d.plan.shared_memory.in(units::KiB), 96);
  const double products = 4.0 * 8192 * 128 / (1000 * 2723.0 / 4096);
  EXPECT_DOUBLE_EQ(d.tensor_clk, products);
  EXPECT_DOUBLE_EQ(d.sfu_clk, 512);
  EXPECT_DOUBLE_EQ(d.fp32_clk, 256);
  EXPECT_DOUBLE_EQ(d.smem_clk, (32 + 4 * 32 + 32) * 1024 / 128.0);
  EXPECT_DOUBLE_EQ(d.issue_clk, (8192 * 4.5 / 32 + 1024 + 384) / 4);
  EXPECT_DOUBLE_EQ(d.l2.in(units::KiB), 32);
  // twenty CTAs, two on each SM, whose warps take turns at a quarter's units: products, maxima and exponentials of both, half of the waits
  EXPECT_NEAR(d.dealt_clk / (100 * (2 * (products + 64 + 512) + (40 + 40 * 29 + 16 * 9) / 2.0)), 1, 1e-9);
  EXPECT_DOUBLE_EQ(d.in_flight.in(units::KiB), 32);
  const Demand half = plan_portable_prefill(s, machine_.rates(), family, &narrow, {}).main;
  EXPECT_EQ(half.plan.ctas, 40);
  EXPECT_EQ(half.plan.ctas_per_sm, 4);
  // forty of two warps, four on each SM: two warps a quarter again
  EXPECT_NEAR(half.dealt_clk / (200 * (2 * 2 * (products / 4 + 16 + 128) + (40 + 24 * 29 + 16 * 9) / 2.0)), 1, 1e-9);
}

/// 100 KB of shared memory hold one CTA of a tile of 96 KB or of 64, and two of 48.
TEST_F(AttentionByHand, OurPortablePrefillOnASmallSharedMemory) {
  Gpu gpu = toy_gpu();
  gpu.sm.smem = 100.0 * units::KiB;
  const Machine small = toy_machine(gpu);
  const AttentionPrefill s{1, 20, 20, 128, 128, 128, 6400};
  const auto resident = [&](const AttentionPlan& plan) {
    return plan_portable_prefill(s, small.rates(), {}, &plan, {}).main.plan.ctas_per_sm;
  };
  EXPECT_EQ(resident({128, 64, 1, 1, 2}), 1);
  EXPECT_EQ(resident({128, 64, 1, 1, 1}), 1);
  EXPECT_EQ(resident({64, 32, 1, 1, 2}), 2);
}

/// FA3: 256 queries over a cache of 256 in tiles of 128 x 128 see 3 and 4 blocks. Beside the softmax each block scales
/// 128 x 128 results; shared memory gives queries once and keys to each of two warpgroups, and takes the keys:
/// (16384 + 2 x 32768) x 2 + 65536 bytes. The diagonal crosses one block: 8 operations a score.
TEST_F(AttentionByHand, FlashPrefillOnHopper) {
  families_[flash_attention::kPrefill].step_clk = 100;
  families_[flash_attention::kPrefill].start_clk = 50;
  const AttentionPrefill s{1, 32, 4, 128, 128, 256, 512};
  const AttentionChoice c = plan_flash_prefill(s, false, machine_.rates(), families_);
  const Demand& d = c.main;
  EXPECT_FALSE(c.prepares);
  EXPECT_EQ(c.plan.kv_tile, 128);
  EXPECT_EQ(d.plan.ctas, 64);
  EXPECT_EQ(d.plan.ctas_per_sm, 1);
  EXPECT_EQ(d.plan.threads, 384);
  EXPECT_FALSE(d.plan.shortest_first);
  EXPECT_DOUBLE_EQ(d.plan.steps, 3.5);
  EXPECT_DOUBLE_EQ(d.plan.longest, 4);
  EXPECT_DOUBLE_EQ(d.fp32_clk, (7 * 16384 + 128 * 128) / 128.0);
  EXPECT_DOUBLE_EQ(d.smem_clk, ((16384 + 2 * 32768) * 2 + 65536) / 128.0);
  EXPECT_DOUBLE_EQ(d.exposed_clk, 100);
  EXPECT_DOUBLE_EQ(d.once_clk, 8 * 16384 / 128.0 + 50);
}

/// FA3 of 8 bits where keys lie side by side (an encoder): tiles of 128 x 224; 448 keys are 2 blocks. fp8 products at the toy's fp8
/// rate; the values' way through shared memory and back, and a chain of 640 clk for 32 KiB of keys and values: 1120 for 224 of
/// 256 bytes. Results stay bf16.
TEST_F(AttentionByHand, FlashEncoderOf8Bits) {
  families_[flash_attention::kPrefill].step_clk = 100;
  families_[flash_attention::kPrefill8bit].step_clk = 640;
  AttentionPrefill s{1, 32, 32, 128, 128, 448, 448};
  s.causal = false;
  s.kv_dtype = DType::fp8;
  const PrefillCut cut{.narrow_family = flash_attention::kPrefill8bit, .paged_family = flash_attention::kPrefillPaged};
  const Rates& m = machine_.rates();
  const AttentionChoice c = plan_flash_prefill(s, false, m, families_, cut);
  EXPECT_EQ(c.math, DType::fp8);
  EXPECT_EQ(c.family, &families_[flash_attention::kPrefill8bit]);
  EXPECT_EQ(c.plan.q_tile, 128);
  EXPECT_EQ(c.plan.kv_tile, 224);
  EXPECT_DOUBLE_EQ(c.main.plan.steps, 2);
  EXPECT_DOUBLE_EQ(c.main.tensor_clk, 4.0 * 128 * 224 * 128 / m.gpu.sm.tensor_flop_per_clk[DType::fp8]);
  EXPECT_DOUBLE_EQ(c.main.smem_clk, ((16384 + 2 * 224 * 256) + 224 * 256 + 2 * 224 * 128) / 128.0);
  EXPECT_DOUBLE_EQ(c.main.exposed_clk, 100 * 224 / 128.0);
  EXPECT_DOUBLE_EQ((c.main.step_latency * m.clock), 1120);
  EXPECT_EQ(c.main.dram_write, 32.0 * 448 * 128 * 2 * units::B);
  // a kernel that has no such family multiplies as wide as the queries are
  EXPECT_EQ(plan_flash_prefill(s, false, m, families_).math, DType::bf16);
}

/// FA3's tiles by mask: heads to 64 in 192 rows; one warpgroup of 64 rows where the queries of a KV head fit; encoders' keys
/// lie in one piece.
TEST_F(AttentionByHand, FlashTilesGoByMaskAndPages) {
  const auto tile = [&](const AttentionPrefill& s) {
    const AttentionPlan p = plan_flash_prefill(s, false, machine_.rates(), families_).plan;
    return std::pair(p.q_tile, p.kv_tile);
  };
  AttentionPrefill s{1, 32, 4, 64, 64, 512, 512};
  EXPECT_EQ(tile(s), std::pair(std::int64_t{192}, std::int64_t{128}));
  s.window = 128;
  EXPECT_EQ(tile(s), std::pair(std::int64_t{192}, std::int64_t{160}));
  s.window = 0, s.causal = false;
  EXPECT_EQ(tile(s), std::pair(std::int64_t{192}, std::int64_t{192}));
  AttentionPrefill few{1, 32, 4, 128, 128, 8, 512};  // 8 queries of 8 heads
  EXPECT_EQ(tile(few), std::pair(std::int64_t{64}, std::int64_t{128}));
  few.q_len = 9;
  EXPECT_EQ(tile(few), std::pair(std::int64_t{128}, std::int64_t{128}));
  EXPECT_EQ(tile(AttentionPrefill{1, 4, 4, 256, 256, 512, 512}), std::pair(std::int64_t{128}, std::int64_t{80}));
}

/// FA2 takes blocks of 64 keys where heads are wider than 64, two CTAs an SM; queries are in registers, and each of four
/// warps of 32 rows reads the keys.
TEST_F(AttentionByHand, FlashPrefillBeforeHopper) {
  const Machine ampere = with_unit(MatrixUnit::mma_sync);
  const AttentionChoice c =
      plan_flash_prefill(AttentionPrefill{1, 32, 4, 128, 128, 256, 512}, false, ampere.rates(), families_);
  EXPECT_EQ(c.plan.kv_tile, 64);
  EXPECT_EQ(c.main.plan.ctas_per_sm, 2);
  EXPECT_EQ(c.main.plan.threads, 128);
  EXPECT_TRUE(c.main.plan.shortest_first);
  EXPECT_DOUBLE_EQ(c.main.smem_clk, (4 * 64 * 256 * 2 + 64 * 256 * 2) / 128.0);
  EXPECT_DOUBLE_EQ(c.main.once_clk, 2 * 8 * 128 * 64 / 128.0) << "the diagonal crosses two blocks of 64";
  EXPECT_EQ(
      plan_flash_prefill(AttentionPrefill{1, 4, 4, 64, 64, 256, 512}, false, ampere.rates(), families_).plan.kv_tile,
      128);
}

/// Heads of 80 run as 96 wide, of 300 as 320, whatever the model has.
TEST_F(AttentionByHand, FlashHeadsHaveCompiledWidths) {
  const auto clocks = [&](std::int64_t width) {
    const AttentionPrefill s{1, 4, 4, width, width, 128, 128};
    const AttentionChoice c = plan_flash_prefill(s, false, machine_.rates(), families_);
    return c.main.tensor_clk * 1000 / (4.0 * static_cast<double>(c.plan.q_tile * c.plan.kv_tile));
  };
  EXPECT_DOUBLE_EQ(clocks(64), 64);
  EXPECT_DOUBLE_EQ(clocks(80), 96);
  EXPECT_DOUBLE_EQ(clocks(192), 192);
  EXPECT_DOUBLE_EQ(clocks(300), 320);
}

/// 4096 keys of 3 streams in three parts: 1366 keys, 22 steps of 64, and 23 links of the chain behind its start. Eight
/// heads fill half of an instruction's 16 rows.
TEST_F(AttentionByHand, FlashDecodeIsAChain) {
  families_[flash_attention::kDecode].start_clk = 50;
  families_[flash_attention::kDecode].step_clk = 100;
  const AttentionChoice c = plan_flash_decode(AttentionDecode{3, 8, 1, 128, 128, 4096}, machine_.rates(), families_);
  EXPECT_EQ(c.plan.splits, 3);
  EXPECT_EQ(c.main.plan.ctas, 9);
  EXPECT_EQ(c.main.plan.steps, 22);
  EXPECT_DOUBLE_EQ(c.main.step_latency.in(units::ns), (50 + 23 * 100) / 22.0);
  EXPECT_DOUBLE_EQ(c.main.tensor_clk, 2.0 * 16 * 64 * 256 / 1000);
  EXPECT_EQ(c.main.dram_write, Bytes{});
  EXPECT_EQ(c.combine.plan.ctas, 24);
  const DecodeCut tiles{.whole_tiles = true};
  const auto tensor_clk = [&](std::int64_t heads, std::int64_t width) {
    const AttentionDecode s{3, heads, 1, width, width, 4096};
    return plan_flash_decode(s, machine_.rates(), families_, {}, tiles).main.tensor_clk;
  };
  EXPECT_DOUBLE_EQ(tensor_clk(8, 128), 2.0 * 64 * 64 * 256 / 1000) << "a warpgroup's 64 rows, 8 of them queries";
  EXPECT_DOUBLE_EQ(tensor_clk(65, 128), 2.0 * 128 * 64 * 256 / 1000);
  EXPECT_DOUBLE_EQ(tensor_clk(8, 256), 2.0 * 128 * 64 * 512 / 1000) << "two warpgroups";
  AttentionDecode narrow{3, 8, 1, 128, 128, 4096};
  narrow.kv_dtype = DType::fp8;  // half the bytes a link
  EXPECT_DOUBLE_EQ(plan_flash_decode(narrow, machine_.rates(), families_).main.step_latency.in(units::ns),
                   (50 + 23 * 50) / 22.0);
}

/// FA2 splits only what has several query heads a KV head.
TEST_F(AttentionByHand, FlashDecodeOfSingleHeadsIsSplitFromHopperOn) {
  const AttentionDecode s{3, 1, 1, 128, 128, 4096};
  EXPECT_EQ(plan_flash_decode(s, machine_.rates(), families_).plan.splits, 3);
  EXPECT_EQ(plan_flash_decode(s, with_unit(MatrixUnit::mma_sync).rates(), families_).plan.splits, 1);
}

/// 128 heads of 2 sequences are four tiles of 64; two CTAs an SM are aimed at, so five parts of 8192 keys: 1639 keys, 26
/// steps. A key is its latent and its rotated part, 576 elements, of which 512 are its value as well.
TEST_F(AttentionByHand, LatentDecode) {
  families_[trtllm::kMla].step = 512.0 * units::ns;
  families_[trtllm::kMla].in_flight = 4096.0 * units::B;
  const AttentionChoice c = plan_mla_decode(MlaDecode{2, 128, 8192, 512, 64}, machine_.rates(), families_);
  const Demand& d = c.main;
  EXPECT_EQ(c.plan.splits, 5);
  EXPECT_EQ(c.plan.packed_heads, 64);
  EXPECT_EQ(d.plan.ctas, 20);
  EXPECT_EQ(d.plan.steps, 26);
  EXPECT_DOUBLE_EQ(d.step_latency.in(units::ns), 1152) << "1152 bytes a key, of which 512 take 512 ns";
  EXPECT_DOUBLE_EQ(d.tensor_clk, 2.0 * 64 * 64 * (576 + 512) / 1000);
  EXPECT_DOUBLE_EQ(d.l2.in(units::B), 64 * 1152);
  EXPECT_DOUBLE_EQ(d.dram_read.in(units::B), 2.0 * 8192 * 1152 + 256.0 * 576 * 2);
  EXPECT_EQ(d.dram_write, Bytes{});
  EXPECT_DOUBLE_EQ(d.in_flight.in(units::B), 4096);
  ASSERT_TRUE(c.combines);
  EXPECT_EQ(c.combine.plan.ctas, 256);
  EXPECT_DOUBLE_EQ(c.combine.l2.in(units::B), 2 * 5 * 512 * 4);
  EXPECT_DOUBLE_EQ(c.combine.dram_write.in(units::B), 256 * 512 * 2);
}

/// A part has two steps at least; a full machine has no parts.
TEST_F(AttentionByHand, LatentDecodeIsSplitAsFarAsItPays) {
  const auto splits = [&](std::int64_t batch, std::int64_t context) {
    return plan_mla_decode(MlaDecode{batch, 16, context, 512, 64}, machine_.rates(), families_).plan.splits;
  };
  EXPECT_EQ(splits(1, 8192), 20);
  EXPECT_EQ(splits(1, 512), 4);
  EXPECT_EQ(splits(1, 100), 1);
  EXPECT_EQ(splits(20, 8192), 1);
  const AttentionChoice whole = plan_mla_decode(MlaDecode{20, 16, 8192, 512, 64}, machine_.rates(), families_);
  EXPECT_FALSE(whole.combines);
  EXPECT_DOUBLE_EQ(whole.main.dram_write.in(units::B), 20 * 16 * 512 * 2);
}

}  // namespace
}  // namespace plumbline::attention_by_hand_test
