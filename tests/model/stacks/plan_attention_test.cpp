// The planners of attention: blocks that a mask leaves, splits, and toy cases by hand.
#include "model/stacks/common/plan_attention.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <utility>

#include "model/engine/timing.hpp"
#include "ops/facts/work.hpp"
#include "tests/support/planners.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline::plan_attention_test {
namespace {

using namespace testing_support;

/// Blocks with at least one visible pair, by looking at every pair's rule row by row.
BlockCount count_by_mask(const AttentionPrefill& s, std::int64_t q_tile, std::int64_t kv_tile) {
  BlockCount count;
  const std::int64_t window = s.window > 0 ? std::min(s.window, s.kv_len) : s.kv_len;
  for (std::int64_t first = 0; first < s.q_len; first += q_tile) {
    double visited = 0;
    for (std::int64_t key = 0; key < s.kv_len; key += kv_tile) {
      bool visible = false;
      for (std::int64_t q = first; q < std::min(first + q_tile, s.q_len) && !visible; ++q) {
        const std::int64_t last = s.causal ? s.kv_len - s.q_len + q : s.kv_len - 1;
        const std::int64_t oldest = last - window + 1;  // the last `window` of the keys that the query may see
        visible = key <= last && key + kv_tile - 1 >= oldest;
      }
      visited += visible ? 1 : 0;
    }
    count.tiles += 1;
    count.total += visited;
    count.longest = std::max(count.longest, visited);
  }
  return count;
}

AttentionPrefill random_mask(bool windowed) {
  AttentionPrefill s{1, 1, 1, 64, 64, 1, 1};
  s.kv_len = whole_between(1, 700);
  s.q_len = coin() ? s.kv_len : whole_between(1, s.kv_len);
  s.causal = coin();
  if (windowed) s.window = whole_between(1, 800);
  return s;
}

RC_GTEST_PROP(VisitedBlocks, AreThoseOfTheMask, ()) {
  for (int i = 0; i < 20; ++i) {
    const AttentionPrefill s = random_mask(coin());
    const std::int64_t q_tile = whole_between(1, 128), kv_tile = whole_between(1, 128);
    const BlockCount seen = count_by_mask(s, q_tile, kv_tile);
    const BlockCount count = visited_blocks(s, static_cast<double>(q_tile), static_cast<double>(kv_tile));
    RC_LOG() << "S=" << s.q_len << " Skv=" << s.kv_len << " causal " << s.causal << " tiles " << q_tile << " x "
             << kv_tile << ": " << count.total << " counted, " << seen.total << " seen\n";
    RC_ASSERT(count.tiles == seen.tiles);
    RC_ASSERT(count.total == seen.total);
    RC_ASSERT(count.longest == seen.longest);
  }
}

/// Where every tile reads as far back as the one that lies worst: at most one block more a tile, and for a last tile that
/// is not full the blocks that its missing rows would see.
RC_GTEST_PROP(VisitedBlocks, OfTheWorstTileAreAtLeastThoseOfTheMaskAndLittleMore, ()) {
  for (int i = 0; i < 20; ++i) {
    const AttentionPrefill s = random_mask(true);
    const std::int64_t q_tile = whole_between(1, 128), kv_tile = whole_between(1, 128);
    const BlockCount seen = count_by_mask(s, q_tile, kv_tile);
    const BlockCount count =
        visited_blocks(s, static_cast<double>(q_tile), static_cast<double>(kv_tile), WindowBegin::worst_tile);
    RC_LOG() << "S=" << s.q_len << " Skv=" << s.kv_len << " window " << s.window << " causal " << s.causal << " tiles "
             << q_tile << " x " << kv_tile << ": " << count.total << " counted, " << seen.total << " seen; longest "
             << count.longest << ", " << seen.longest << "\n";
    const double missing_rows = std::ceil(static_cast<double>(q_tile) / static_cast<double>(kv_tile));
    RC_ASSERT(count.tiles == seen.tiles);
    RC_ASSERT(count.total >= seen.total);
    RC_ASSERT(count.longest >= seen.longest);
    RC_ASSERT(count.total <= seen.total + seen.tiles + missing_rows);
    RC_ASSERT(count.longest <= seen.longest + 1 + missing_rows);
  }
}

/// Beyond 4096 tiles the staircase is taken as a ramp: S = 2^20 in tiles of 64 x 128 visits sum over i of
/// ceil(64 (i + 1) / 128) = 2 (1 + 2 + ... + 8192) blocks.
TEST(VisitedBlocks, ALongStaircaseIsItsRamp) {
  AttentionPrefill s{1, 1, 1, 64, 64, 1 << 20, 1 << 20};
  const double exact = 2.0 * 8192 * 8193 / 2;
  EXPECT_NEAR(visited_blocks(s, 64, 128).total / exact, 1, 1e-4);
  s.window = 4096;  // tiles in the window's body see 4096 + 63 keys, which lie in 33 blocks however they begin
  const BlockCount windowed = visited_blocks(s, 64, 128);
  EXPECT_EQ(windowed.longest, 33);
  EXPECT_NEAR(windowed.total / (33.0 * 16384), 1, 0.01);
}

/// A prefill of 4 tiles of 64 in blocks of 128: 1 + 1 + 2 + 2.
TEST(VisitedBlocks, ByHand) {
  AttentionPrefill s{1, 1, 1, 64, 64, 256, 256};
  EXPECT_EQ(visited_blocks(s, 64, 128).total, 6);
  EXPECT_EQ(visited_blocks(s, 64, 128).longest, 2);
  s.causal = false;
  EXPECT_EQ(visited_blocks(s, 64, 128).total, 8);
  s.causal = true;
  s.q_len = 64;  // the last chunk sees everything
  EXPECT_EQ(visited_blocks(s, 64, 128).total, 2);
}

// --- plans -----------------------------------------------------------------------------------------------------------

/// The keys of a sequence are shared out in whole, over no more CTAs than are aimed at, and each does something.
RC_GTEST_PROP(PlanDecode, SplitsCoverTheContext, ()) {
  const auto m = random_machine();
  for (int i = 0; i < 20; ++i) {
    AttentionDecode s = std::get<AttentionDecode>(
        *rc::gen::resize(rc::kNominalSize, rc::gen::exec([] { return Op(random_shape<AttentionDecode>()); })));
    s.dtype = DType::bf16;
    const AttentionChoice c = plan_attention(s, m);
    const double seen = static_cast<double>(s.window > 0 ? std::min(s.window, s.context) : s.context);
    const bool grouped = c.family == &scalars_of(m, "library.attention_decode");
    const double streams = static_cast<double>(s.batch * (grouped ? s.kv_heads : s.q_heads));
    const double splits = static_cast<double>(c.plan.splits);
    RC_LOG() << describe(Op(s)) << ": " << c.plan.splits << " splits, " << c.main.plan.steps << " steps\n";
    RC_ASSERT(splits >= 1);
    RC_ASSERT(c.main.plan.steps * static_cast<double>(c.plan.kv_tile) * splits >= seen);
    RC_ASSERT(splits == 1 || !grouped || streams * splits <= 8 * m.rates().sm_count);
    RC_ASSERT(grouped || streams * (splits - 1) < m.rates().sm_count);  // rounded up
    RC_ASSERT(splits == 1 || !grouped || static_cast<double>(s.context + 1) / splits >= 128);
    RC_ASSERT(!c.combines);
    // parts that a window leaves without keys end at once: those of wgmma's kernel are no CTAs of the plan
    const bool some_empty = grouped && std::ceil(seen / static_cast<double>(c.plan.kv_tile)) < splits;
    const double ctas = static_cast<double>(c.main.plan.ctas);
    RC_ASSERT(ctas <= streams * splits);
    RC_ASSERT(ctas >= (some_empty ? streams : streams * splits));
  }
}

class ToyAttention : public ::testing::Test {
 protected:
  /// Tensor units and shared memory fast enough that DRAM rules decode: 4000 FLOP/clk/SM, 512 B/clk/SM.
  static Gpu gpu() {
    Gpu g = toy_gpu();
    g.sm.tensor_flop_per_clk[DType::bf16] = 4000;
    g.sm.smem_bytes_per_clk = 512.0 * units::B;
    return g;
  }
  Machine machine = toy_machine(gpu());
};

/// 2 sequences x 40 KV heads, 80 CTAs for 10 SMs: no splits, for 160 would be more than 8 an SM. Keys: 80 x 1600 x
/// (128 + 128) x 2 B = 65.536 MB; queries in and results out: 2 x 80 heads x 128 x 2 B each way. At 1 TB/s 65.61792 us.
/// A step of 64 keys takes the tensor units 2 x 16 x 64 x 256 / 4000 = 131 clk, shared memory 2 x 32 KiB / 512 = 128
/// clk, and DRAM 328 ns. 1 us fixed.
TEST_F(ToyAttention, DecodeReadsItsCache) {
  const AttentionDecode s{2, 80, 40, 128, 128, 1600};
  const AttentionChoice c = plan_attention(s, machine);
  EXPECT_EQ(c.plan.splits, 1);
  EXPECT_FALSE(c.combines);
  const LaunchTime t = price(c.main, machine.rates(), *c.family);
  EXPECT_NEAR(t.total.in(units::us), 1 + 65.61792, 1e-9);
  EXPECT_EQ(t.limiter, Resource::dram);
}

/// One sequence, one KV head, 16000 keys: 125 blocks of 128 keys, but no more than sqrt(8 x 125) = 31.6 -> 32 splits.
/// 16001 keys are 63 tiles of 256, two for 31 parts and one for the last: 8 steps of 64, or 4.
TEST_F(ToyAttention, DecodeOfOneHeadIsSplit) {
  const AttentionChoice c = plan_attention(AttentionDecode{1, 8, 1, 128, 128, 16000}, machine);
  EXPECT_EQ(c.family, &scalars_of(machine, "library.attention_decode"));
  EXPECT_EQ(c.plan.splits, 32);
  EXPECT_EQ(c.plan.packed_heads, 8);
  EXPECT_EQ(c.main.plan.ctas, 32);
  EXPECT_DOUBLE_EQ(c.main.plan.steps, (31 * 8 + 4) / 32.0);
}

/// 32 CTAs on 10 SMs are 4 waves. Each takes 1000 clk of 1 ns to start, 4 links of 128 keys of 100 and 5000 clk to hand on its
/// part: with 1 us fixed, 1 + 4 x (1 + 0.4 + 5) us. The merge takes a turn for each two of 32 parts (heads of 128 leave two
/// groups of warps), here of 10 clk more. Of 640 keys in 3 tiles a window leaves 29 CTAs without keys, which cost 850 clk
/// only: spread evenly over the turns, the last of the three begins behind two of those, 1 + 2 x 0.85 + (1 + 0.2 + 5) us.
TEST_F(ToyAttention, DecodeWavesStartAndWalk) {
  Calibration c = toy_calibration();
  auto& scalars = c.families["library.attention_decode"];
  scalars["start_clk"].value = 1000;
  scalars["step_clk"].value = 100;
  scalars["merge_clk"].value = 5000;
  scalars["issue_start_clk"].value = 850;
  Gpu fast = gpu();  // nothing else takes time
  fast.l2.latency = 1e-15 * units::s;
  fast.memory.bandwidth = 1e6 * units::TB_per_s;
  fast.l2.bandwidth = 1e6 * units::TB_per_s;
  fast.sm.l2_bytes_per_clk = 1e9 * units::B;
  fast.sm.smem_bytes_per_clk = 1e9 * units::B;
  fast.sm.tensor_flop_per_clk[DType::bf16] = 1e9;
  fast.sm.sfu_op_per_clk = 1e9;
  fast.sm.fp32_flop_per_clk = 1e9;
  fast.sm.issue_per_clk = 1e9;
  AttentionDecode s{1, 8, 1, 128, 128, 16000};
  const auto time = [&] {
    const auto m = toy_machine(fast, c);
    const AttentionChoice choice = plan_attention(s, m);
    return price(choice.main, m.rates(), *choice.family).total.in(units::us);
  };
  EXPECT_NEAR(time(), 1 + 4 * 6.4, 1e-3);
  scalars["issue_step_clk"].value = 10;
  EXPECT_NEAR(time(), 1 + 4 * 6.4 + 16 * 0.01, 1e-3);
  scalars["issue_step_clk"].value = 0;
  s.window = 640;
  EXPECT_NEAR(time(), 1 + 2 * 0.85 + 6.2, 1e-3);
}

/// The grouped kernel needs a CTA for a quarter of the SMs: 3 of 10. Two KV heads with less than 128 keys are 2.
TEST_F(ToyAttention, FewShortSequencesRunThePlainKernel) {
  const AttentionChoice few = plan_attention(AttentionDecode{1, 8, 2, 128, 128, 200}, machine);
  EXPECT_EQ(few.family, &scalars_of(machine, "library.attention_decode_single"));
  EXPECT_EQ(few.main.plan.ctas, 8);  // one for each query head
  EXPECT_EQ(plan_attention(AttentionDecode{2, 8, 2, 128, 128, 200}, machine).family,
            &scalars_of(machine, "library.attention_decode"));
  // 64 query heads a KV head are more than it packs
  EXPECT_EQ(plan_attention(AttentionDecode{2, 128, 2, 128, 128, 200}, machine).family,
            &scalars_of(machine, "library.attention_decode_single"));
}

/// A window of 640 keys reads a tenth of 6400, and a page table adds 4 B a page: 640 keys in pages of 64 lie in at most
/// 11 pages of each of 2 sequences.
TEST_F(ToyAttention, WindowsAndPages) {
  AttentionDecode s{2, 20, 10, 128, 128, 6400};
  const double queries = 2 * 20 * 128 * 2;
  s.window = 640;
  EXPECT_DOUBLE_EQ(plan_attention(s, machine).main.dram_read.in(units::B), 6553600 + queries);
  s.page = 64;
  EXPECT_DOUBLE_EQ(plan_attention(s, machine).main.dram_read.in(units::B), 6553600 + queries + 2 * 11 * 4);
}

TEST_F(ToyAttention, OneHeadAKvHeadIsAnotherFamily) {
  EXPECT_EQ(plan_attention(AttentionDecode{1, 8, 8, 64, 64, 100}, machine).family,
            &scalars_of(machine, "library.attention_decode_single"));
  EXPECT_EQ(plan_attention(AttentionDecode{1, 8, 4, 64, 64, 100}, machine).family,
            &scalars_of(machine, "library.attention_decode"));
}

/// All heads of a sequence read the same latents: 100 keys x (512 + 64) x 2 B once, 128 heads in two CTAs of 64 rows.
TEST_F(ToyAttention, LatentAttentionReadsLatentsOnce) {
  const AttentionChoice c = plan_attention(MlaDecode{1, 128, 100, 512, 64}, machine);
  EXPECT_EQ(c.plan.packed_heads, 64);
  EXPECT_DOUBLE_EQ(c.main.dram_read.in(units::B), 100 * 576 * 2 + 128 * 576 * 2);
  EXPECT_DOUBLE_EQ(c.main.dram_write.in(units::B), 128 * 512 * 2);
}

/// Tensor instructions take 16 rows: 2 heads cost as much as 16, 17 as much as 32. A step of 64 keys, 576 wide with
/// values of 512: 2 x 16 x 64 x 1088 / 4000 clk.
TEST_F(ToyAttention, LatentRowsArePaddedToAnInstruction) {
  const auto clk = [&](std::int64_t heads) {
    return plan_attention(MlaDecode{1, heads, 100, 512, 64}, machine).main.tensor_clk;
  };
  EXPECT_DOUBLE_EQ(clk(2), 2.0 * 16 * 64 * 1088 / 4000);
  EXPECT_DOUBLE_EQ(clk(16), clk(2));
  EXPECT_DOUBLE_EQ(clk(17), 2 * clk(2));
}

/// 1 sequence x 20 heads x 64 queries = 20 tiles of 128 rows, half of them empty, one at a time on each of 10 SMs; 6400
/// keys in 50 blocks of 128. A block takes the tensor units 4 x 128 x 128 x 128 / 4000 = 2097.152 clk; softmax: 7 x
/// 16384 / 128 + 128 x 128 / 128 = 1024 clk of fp32, 1024 clk of exp. Two tiles an SM: 2 x 50 x 2097.152 ns, and 1 us
/// fixed.
TEST_F(ToyAttention, PrefillOfTwoTilesAnSmIsTensorBound) {
  AttentionPrefill s{1, 20, 20, 128, 128, 64, 6400};
  s.causal = false;
  s.append = 0;
  const AttentionChoice c = plan_attention(s, machine);
  EXPECT_FALSE(c.prepares);
  const LaunchTime t = price(c.main, machine.rates(), scalars_of(machine, "library.attention_prefill"));
  EXPECT_NEAR(t.total.in(units::us), 1 + 209.7152, 1e-9);
  EXPECT_EQ(t.limiter, Resource::tensor);
}

/// With four times the tensor rate the softmax rules: 16384 / 16 = 1024 clk a block.
TEST_F(ToyAttention, PrefillOfFastTensorUnitsIsBoundBySoftmax) {
  Gpu g = gpu();
  g.sm.tensor_flop_per_clk[DType::bf16] = 16000;
  const auto m = toy_machine(g);
  AttentionPrefill s{1, 20, 1, 128, 128, 64, 6400};
  s.causal = false;
  s.append = 0;
  const LaunchTime t = price(plan_attention(s, m).main, m.rates(), scalars_of(m, "library.attention_prefill"));
  EXPECT_NEAR(t.total.in(units::us), 1 + 2 * 50 * 1.024, 1e-9);
}

/// What a block costs beside its work, and what a tile costs beside its blocks: 20 tiles of 2 blocks, 2 tiles an SM.
/// 100 clk a block; the diagonal crosses 1 block of the causal tile of 128 rows: 8 x 128 x 128 / 128 = 1024 clk; blocks
/// of 1024 clk. 1 + 2 x (2 x (1.024 + 0.1) + 1.024) us. Heads of 256 have no buffer for a second query tile: the next
/// one's way is 200 + 2 x 500 clk and 128 x 256 x 2 / 1000 clk more, and keys come in blocks of 64, of which the
/// diagonal crosses two.
TEST_F(ToyAttention, PrefillPaysForBlocksMasksAndQueries) {
  Calibration c = toy_calibration();
  c.families["library.attention_prefill"]["step_clk"].value = 100;
  Gpu g = gpu();
  g.sm.tensor_flop_per_clk[DType::bf16] = 16000;
  const auto m = toy_machine(g, c);
  AttentionPrefill s{1, 20, 1, 128, 128, 128, 256};
  s.append = 0;
  const auto time = [&] {
    return price(plan_attention(s, m).main, m.rates(), scalars_of(m, "library.attention_prefill")).total.in(units::us);
  };
  EXPECT_NEAR(time(), 1 + 2 * (2 * 1.124 + 1.024), 1e-9);
  s.qk_dim = s.v_dim = 256;
  // softmax on ordinary lanes is longer now than 524 clk of tensor work: 7 x 8192 / 128 + 128 x 256 / 128 clk
  const double block = 448 + 256 + 100, way = 200 + 2 * 500 + 128 * 256 * 2 / 1000.0;
  EXPECT_NEAR(time(), 1 + 2e-3 * (4 * block + 1024 + way), 1e-9);
}

/// Causal tiles are taken shortest first: 4 tiles of 1, 2, 3 and 4 blocks of each of 5 heads on 10 SMs. The SM that
/// takes a tile of 4 blocks has taken one two shorter before: 6 blocks, where the mean is 5.
TEST_F(ToyAttention, CausalTilesComeShortestFirst) {
  AttentionPrefill s{1, 5, 1, 128, 128, 512, 512};
  s.append = 0;
  Gpu g = gpu();
  g.sm.fp32_flop_per_clk = 1e9;  // no time for masks
  const auto m = toy_machine(g);
  const LaunchTime t = price(plan_attention(s, m).main, m.rates(), scalars_of(m, "library.attention_prefill"));
  EXPECT_NEAR(t.by_resource[Resource::tensor].in(units::us), (2 * 4 - 1.5 * 2 * 10 / 20) * 2.097152, 1e-9);
}

class ToyFlash : public ToyAttention {
 protected:
  static Machine flash() {
    MachineOptions options;
    options.stack = "trt-llm";
    options.stack = "vllm";
    return make_machine(gpu(), toy_calibration(), options);
  }
};

/// Over pages the query heads of a KV head are packed: 4 queries of each of 32 are a tile of 128 rows, whose 8 blocks of
/// keys go to as many of the 10 SMs; 100 are 25 tiles, which fill them.
TEST_F(ToyFlash, QueryHeadsArePacked) {
  const auto m = flash();
  const auto plan = [&](std::int64_t queries) {
    return plan_attention(AttentionPrefill{1, 32, 1, 128, 128, queries, 1024}, m);
  };
  EXPECT_EQ(plan(4).main.plan.ctas, 8);
  EXPECT_EQ(plan(4).plan.splits, 8);
  EXPECT_TRUE(plan(4).combines);
  EXPECT_EQ(plan(4).plan.packed_heads, 32);
  EXPECT_EQ(plan(100).main.plan.ctas, 25);
  EXPECT_FALSE(plan(100).combines);
  EXPECT_EQ(plan(128).main.plan.ctas, 32);
  EXPECT_EQ(plan(256).main.plan.ctas, 64);
  EXPECT_EQ(plan(256).plan.packed_heads, 32);
}

/// Its callers write keys and values to the cache, queries stay: 4 x (128 + 128) x 2 B x 64 tokens.
TEST_F(ToyFlash, AppendMovesKeysAndValues) {
  AttentionPrefill s{1, 32, 4, 128, 128, 64, 64};
  const Machine theirs = flash();  // the choice points into it
  const AttentionChoice c = plan_attention(s, theirs);
  ASSERT_TRUE(c.prepares);
  EXPECT_EQ(c.prepare.dram_write.in(units::B), 4 * 256 * 2 * 64);
  EXPECT_EQ(c.prepare.plan.ctas, 64);
}

/// So they do in decode, where they are measured with it: 4 x (128 + 128) x 2 B for each of 64 new tokens, a launch more.
TEST_F(ToyFlash, DecodeWritesTheNewTokensWhereAsked) {
  AttentionDecode s{64, 32, 4, 128, 128, 300};
  const Machine theirs = flash();
  EXPECT_FALSE(plan_attention(s, theirs).prepares);
  const Seconds alone = predict(s, theirs).time;
  s.append = 1;
  const AttentionChoice c = plan_attention(s, theirs);
  ASSERT_TRUE(c.prepares);
  EXPECT_EQ(c.prepare.dram_write.in(units::B), 4 * 256 * 2 * 64);
  EXPECT_EQ(c.prepare.plan.ctas, 64);
  EXPECT_GT(predict(s, theirs).time, alone);
}

/// Parts give each of the 10 SMs as many blocks of 128 keys: of three streams of 4097 keys (33 blocks) three parts, of
/// eight, which are 26.4 blocks an SM and a tenth, two. Every block of a short stream is a part.
TEST_F(ToyFlash, DecodeFillsTheSmsWithBlocks) {
  const auto m = flash();
  EXPECT_EQ(plan_attention(AttentionDecode{3, 8, 1, 128, 128, 4096}, m).plan.splits, 3);
  EXPECT_TRUE(plan_attention(AttentionDecode{3, 8, 1, 128, 128, 4096}, m).combines);
  EXPECT_EQ(plan_attention(AttentionDecode{8, 8, 1, 128, 128, 4096}, m).plan.splits, 2);
  EXPECT_EQ(plan_attention(AttentionDecode{1, 8, 1, 128, 128, 256}, m).plan.splits, 3);
  EXPECT_EQ(plan_attention(AttentionDecode{993, 8, 1, 128, 128, 4096}, m).plan.splits, 1);
}

/// append: -1 is what the kernel set's stacks do: the libraries' rotate and append in a launch of their own.
TEST_F(ToyAttention, AppendIsResolvedByTheKernelSet) {
  AttentionPrefill s{1, 4, 4, 128, 128, 64, 640};
  const auto own = toy_machine(gpu(), toy_calibration(), KernelSet::own);
  EXPECT_TRUE(plan_attention(s, machine).prepares);
  EXPECT_FALSE(plan_attention(s, own).prepares);
  s.append = 1;
  EXPECT_TRUE(plan_attention(s, own).prepares);
  s.append = 0;
  EXPECT_FALSE(plan_attention(s, machine).prepares);
}

/// From an fp8 cache queries and keys are multiplied in fp8, so that a byte of each is read: 4 heads x (64 x 128 + 640 x
/// 256). Results are as wide as the caller's: 4 heads x 64 rows x 128 x 4 or 2 B.
TEST_F(ToyAttention, ResultsAreAsWideAsTheCallersWhateverIsMultiplied) {
  Gpu g = gpu();
  g.sm.tensor_flop_per_clk[DType::fp8] = g.sm.tensor_flop_per_clk[DType::tf32] = 4000;
  const auto m = toy_machine(g);
  AttentionPrefill s{1, 4, 4, 128, 128, 64, 640};
  s.kv_dtype = DType::fp8;
  for (const auto& [dtype, bytes] : {std::pair{DType::tf32, 4}, {DType::bf16, 2}}) {
    s.dtype = dtype;
    const AttentionChoice c = plan_attention(s, m);
    EXPECT_EQ(c.main.dram_read.in(units::B), 4 * (64 * 128 + 640 * 256));
    EXPECT_EQ(c.main.dram_write.in(units::B), 4 * 64 * 128 * bytes);
  }
}

/// Tensor memory holds two tiles of 128 rows and their results up to 128 wide; too few rows leave one.
TEST(FlashTiles, TwoTakeTurnsOnTcgen05) {
  const auto rows = [](const char* card, std::int64_t width, std::int64_t length, std::int64_t kv_heads) {
    MachineOptions options{"trt-llm"};  // vLLM hands such prompts to another library on tcgen05
    options.stack.attention = "flash-attention";
    const Machine m = make_machine(load_gpu(card), options);
    return predict(AttentionPrefill{1, 8, kv_heads, width, width, length, 4096}, m).attention_plan.q_tile;
  };
  EXPECT_EQ(rows("b200_sxm", 128, 4096, 8), 256);
  EXPECT_EQ(rows("b200_sxm", 256, 4096, 8), 128);
  EXPECT_EQ(rows("b200_sxm", 128, 32, 8), 128);
  EXPECT_EQ(rows("b200_sxm", 128, 32, 1), 256);  // eight heads share the keys: 256 rows
  EXPECT_EQ(rows("h200_sxm", 128, 4096, 8), 128);
  EXPECT_EQ(rows("a100_sxm", 128, 4096, 8), 64) << "FA2 over pages";
  EXPECT_EQ(rows("l40s", 128, 1024, 8), 64) << "128 CTAs on 142 SMs";
  EXPECT_EQ(rows("l40s", 128, 4096, 8), 128) << "512";
}

}  // namespace
}  // namespace plumbline::plan_attention_test
