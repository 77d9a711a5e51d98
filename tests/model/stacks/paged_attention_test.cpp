// FlashAttention-3 over caches in pages: tiles, parts and demands by hand, as the library's source has them.
#include "model/stacks/flash_attention/paged.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/stacks/flash_attention/plan_attention.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline::paged_attention_test {
namespace {

using namespace testing_support;
using namespace flash_attention;

std::pair<double, double> tile(const PagedQuestion& q) {
  const PagedTile t = paged_tile(q);
  return {t.rows, t.keys};
}

TEST(PagedTiles, GoByWidthsMasksAndTypes) {
  EXPECT_EQ(tile({128, 128, 512, false, false}), std::pair(128.0, 128.0));
  EXPECT_EQ(tile({64, 64, 512, false, false}), std::pair(192.0, 128.0));
  EXPECT_EQ(tile({64, 64, 512, true, false}), std::pair(192.0, 160.0));
  EXPECT_EQ(tile({128, 128, 512, false, true}), std::pair(128.0, 192.0));
  EXPECT_EQ(tile({256, 256, 512, false, true}), std::pair(128.0, 128.0));
}

/// One warpgroup has all queries of a KV head where they fit in its 64 rows, but behind a window, and of heads of 64 and
/// 128.
TEST(PagedTiles, OfOneWarpgroup) {
  EXPECT_EQ(tile({128, 128, 64, false, false}), std::pair(64.0, 128.0));
  EXPECT_EQ(tile({128, 128, 65, false, false}), std::pair(128.0, 128.0));
  EXPECT_EQ(tile({64, 64, 8, false, false}), std::pair(64.0, 192.0));
  EXPECT_EQ(tile({128, 128, 8, true, false}), std::pair(128.0, 128.0)) << "a window that hides keys";
  EXPECT_EQ(tile({192, 192, 8, false, false}), std::pair(128.0, 96.0)) << "no such kernel";
}

/// Four sequences of 205 blocks and two KV heads on 132 SMs: 1640 blocks and a tenth are 13.7 an SM, so 14, and 205 are
/// 15 parts of 14. A graph's steps have 32 parts at most; 993 sequences are not cut.
TEST(PagedParts, FillTheSmsWithBlocks) {
  PagedWork work{.sequences = 4, .kv_heads = 2, .row_tiles = 1, .blocks = 205, .blocks_loaded = 205, .tokens = 4};
  work.queries_a_step = 1;
  EXPECT_EQ(paged_parts(work, 132), 15);
  work.sequences = work.tokens = 1;
  EXPECT_EQ(paged_parts(work, 132), 32);
  work.sequences = work.tokens = 993;
  EXPECT_EQ(paged_parts(work, 132), 1);
}

/// A prompt of 2048 tokens of two heads that share keys: 32 tiles of rows and 11 blocks of 192 keys. One to three parts
/// fill 24, 48 and (in parts of fewer than 4 blocks) 0.85 x 73 %, four 0.85 x 97 %, no more than that any other number:
/// four at most, and 387 blocks are 3 an SM, which gives 4. With 106 tiles of rows, four fifths of the SMs, nothing is
/// cut.
TEST(PagedParts, CutPromptsOfFewHeads) {
  PagedWork work{.sequences = 1, .kv_heads = 1, .row_tiles = 32, .blocks = 11, .blocks_loaded = 11, .tokens = 2048};
  work.queries_a_step = 2048;
  EXPECT_EQ(paged_parts(work, 132), 4);
  work.row_tiles = 106;
  EXPECT_EQ(paged_parts(work, 132), 1);
}

/// 31 sequences a step; a step waits twice for L2 where a launch before has sorted them, once beyond 992.
TEST(PagedWalk, GoesThroughTheSequences) {
  const Machine machine = toy_machine();
  const Rates& m = machine.rates();
  const auto waits = [&](double sequences) { return walk_over_sequences(sequences, m) / m.l2_mean_latency(); };
  EXPECT_DOUBLE_EQ(waits(1), 2);
  EXPECT_DOUBLE_EQ(waits(31), 2);
  EXPECT_DOUBLE_EQ(waits(32), 4);
  EXPECT_DOUBLE_EQ(waits(992), 64);
  EXPECT_DOUBLE_EQ(waits(993), 33);
}

/// Of 64 KiB of 16 bits half is copied where half of the rows hold keys: (32 + 84) of (64 + 84) KiB. Of 32 KiB of 8 bits
/// a third is taken whole: (32 x (1 + 2 x 1/4) / 3 + 6) of (32 + 6).
TEST(PagedChain, CopiesRowsThatHoldKeys) {
  EXPECT_DOUBLE_EQ(paged_chain_clk(128, 128, 128, false, 1480), 1480);
  EXPECT_DOUBLE_EQ(paged_chain_clk(128, 128, 128, false, 1480, 0.5), 1160);
  EXPECT_DOUBLE_EQ(paged_chain_clk(128, 128, 128, true, 3800), 3800);
  EXPECT_DOUBLE_EQ(paged_chain_clk(128, 128, 128, true, 3800, 0.25), 2200);
}

TEST(PagedBlocks, BeginAtTheFirstKeyOfAWindow) {
  EXPECT_EQ(keys_seen(1023, 0), 1024);
  EXPECT_EQ(keys_seen(1023, 128), 128);
  EXPECT_EQ(keys_seen(127, 128), 128) << "all are in the window";
  EXPECT_EQ(visible_blocks(1023, 0, 160), 7);    // 1024 keys
  EXPECT_EQ(visible_blocks(1023, 128, 160), 1);  // two, if they began at multiples of 160
  EXPECT_EQ(visible_blocks(100, 128, 160), 1) << "a window that hides nothing";
  AttentionPrefill s{1, 1, 1, 128, 128, 512, 512};
  s.window = 128;
  const BlockCount blocks = visited_blocks(s, 128, 128, WindowBegin::own_key);
  EXPECT_EQ(blocks.tiles, 4);
  EXPECT_EQ(blocks.total, 1 + 3 * 2) << "255 keys but for the first tile, which has its own 128";
}

class PagedPlans : public ::testing::Test {
 protected:
  Machine machine_ = toy_machine();
  std::array<FamilyScalars, kAllFamilies> families_{};
  const Rates& m_ = machine_.rates();
};

/// 256 queries of 8 heads a KV head over 512 cached keys, in 8 bits: 16 queries a tile of 128 rows, 16 tiles of 2 or 3
/// blocks of 192 keys. The diagonal of 16 queries cuts 1 + 15/192 blocks: 10 operations a score. The chain is that of 48
/// KiB and 6 KiB's latency over 38 KiB.
TEST_F(PagedPlans, PromptOf8Bits) {
  families_[kPrefill8bit].step_clk = 380;
  families_[kPrefill8bit].issue_step_clk = 100;
  families_[kPrefill8bit].start_clk = 50;
  families_[kPrefill8bit].issue_start_clk = 7;
  AttentionPrefill s{1, 256, 32, 128, 128, 256, 512};
  s.kv_dtype = DType::fp8;
  const PrefillCut cut{.narrow_family = kPrefill8bit, .paged_family = kPrefillPaged};
  const AttentionChoice c = plan_flash_prefill(s, false, m_, families_, cut);
  const Demand& d = c.main;
  EXPECT_EQ(c.math, DType::fp8);
  EXPECT_EQ(c.family, &families_[kPrefill8bit]);
  EXPECT_EQ(c.plan.packed_heads, 8);
  EXPECT_EQ(d.plan.ctas, 32 * 16);
  EXPECT_EQ(d.plan.longest, 3);
  // keys seen by tile i: 272 + 16 i; more than 384 from the eighth on
  EXPECT_DOUBLE_EQ(d.plan.steps, (8 * 2 + 8 * 3) / 16.0);
  EXPECT_DOUBLE_EQ(d.step_latency * m_.clock, 380 * (48 + 6) / 38.0);
  EXPECT_DOUBLE_EQ(d.exposed_clk, 100 * 128 * 192 / 16384.0);
  const double turns = 512 / m_.sm_count, whole = std::ceil(turns) / turns;
  const double masked = (1 + 15 / 192.0) * 10 * 128 * 192 / (m_.gpu.sm.fp32_flop_per_clk / 2);
  EXPECT_NEAR(d.once_clk, (masked + 3000 + 50 + 7) * whole, 1e-6);
  EXPECT_EQ(d.dram_write, 256.0 * 256 * 128 * 2 * units::B) << "results stay bf16";
}

/// Decode of 8 heads a KV head: a tile of 64 rows and no turns of warpgroups; behind a window tiles of 128 rows, and one
/// block.
TEST_F(PagedPlans, WindowsTakeWholeTiles) {
  families_[kDecodePaged].start_clk = 50;
  families_[kDecodePaged].issue_start_clk = 7;
  families_[kDecodePaged].issue_step_clk = 11;
  AttentionDecode s{64, 64, 8, 128, 128, 4095};
  const DecodeCut cut{.narrow_family = kDecode8bit, .paged_family = kDecodePaged, .whole_tiles = true};
  const AttentionChoice all = plan_flash_decode(s, m_, families_, {}, cut);
  EXPECT_EQ(all.plan.q_tile, 64);
  EXPECT_EQ(all.main.plan.steps, 32);
  EXPECT_EQ(all.main.once_clk, 50);
  EXPECT_EQ(all.main.exposed_clk, 0);
  s.window = 128;
  const AttentionChoice window = plan_flash_decode(s, m_, families_, {}, cut);
  EXPECT_EQ(window.plan.q_tile, 128);
  EXPECT_EQ(window.main.plan.steps, 1);
  EXPECT_EQ(window.main.once_clk, 57);
  EXPECT_EQ(window.main.exposed_clk, 11);
}

/// A token's CTA has a thread an element of its keys: 16 CTAs of 128 threads share an SM of 2048, 4 of 512.
TEST_F(PagedPlans, WritesOfTheCacheShareAnSm) {
  FamilyScalars family;
  family.start_clk = 1000;
  family.step_clk = 500;
  AttentionPrefill s{2, 8, 1, 128, 128, 100, 100};
  const std::int64_t slots = m_.gpu.sm.threads;
  EXPECT_EQ(cache_write_demand(s, family, m_).plan.ctas_per_sm, std::min(m_.gpu.sm.blocks, slots / 128));
  s.kv_heads = 8;
  const Demand wide = cache_write_demand(s, family, m_);
  EXPECT_EQ(wide.plan.ctas, 200);
  EXPECT_EQ(wide.plan.ctas_per_sm, slots / 512);
  EXPECT_DOUBLE_EQ(wide.step_latency * m_.clock, 1000);
  s.kv_dtype = DType::fp8;
  EXPECT_DOUBLE_EQ(cache_write_demand(s, family, m_).step_latency * m_.clock, 1500) << "rounded on their way";
}

}  // namespace
}  // namespace plumbline::paged_attention_test
