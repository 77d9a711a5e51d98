// FlashAttention-2 over caches in pages: blocks, parts and launches by hand, as the library's source has them.
#include "model/stacks/flash_attention/mma_paged.hpp"

#include <gtest/gtest.h>

#include <array>

#include "model/stacks/flash_attention/plan_attention.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline::mma_paged_attention_test {
namespace {

using namespace testing_support;
using namespace flash_attention;

constexpr MmaPagedFamilies kNames{kDecodeMma, kDecodeMmaSmall, kCacheWrite, kTranspose, kCopy, kMergeMma};

/// Queries of 64 rows, keys and values of a block in 16 bits: 80 KiB with heads of 128, so that 164 KiB hold two CTAs and 100 one.
TEST(MmaPagedTiles, GoByWidths) {
  EXPECT_EQ(mma_paged_keys(64), 256);
  EXPECT_EQ(mma_paged_keys(128), 128);
  EXPECT_EQ(mma_paged_keys(256), 64);
  const Machine machine = toy_machine();
  Rates m = machine.rates();
  m.gpu.sm.smem_reserved_per_block = 1.0 * units::KiB;
  m.gpu.sm.smem = 164.0 * units::KiB;
  EXPECT_EQ(mma_paged_ctas(128, 2, m), 2);
  EXPECT_EQ(mma_paged_ctas(256, 2, m), 1) << "96 KiB";
  m.gpu.sm.smem = 100.0 * units::KiB;
  EXPECT_EQ(mma_paged_ctas(128, 2, m), 1);
}

/// Two CTAs an SM: 216 on 108 SMs. 173 tiles are four fifths of them. One tile of 32 blocks has 32 parts; 100 tiles fill 93 % in two
/// parts; of 5 blocks four parts are no other than three, so that a tile has five.
TEST(MmaPagedParts, FillTwoCtasAnSm) {
  EXPECT_EQ(mma_paged_parts(173, 100, 108), 1);
  EXPECT_EQ(mma_paged_parts(1, 32, 108), 32);
  EXPECT_EQ(mma_paged_parts(100, 32, 108), 2);
  EXPECT_EQ(mma_paged_parts(1, 5, 108), 5);
  EXPECT_EQ(mma_paged_parts(1, 500, 108), 125)
      << "of 4 blocks: more than 107, 0.85 of the most that 128 allow, in fewer blocks";
}

struct Planned {
  std::array<FamilyScalars, kAllFamilies> families{};
  AttentionChoice choice;
};
Planned planned(const AttentionDecode& s) {
  Planned p;
  const Machine machine = toy_machine();
  p.choice = plan_mma_paged_decode(s, false, machine.rates(), p.families, {}, kNames);
  return p;
}

AttentionDecode decode(std::int64_t batch, std::int64_t kv_heads, std::int64_t group) {
  AttentionDecode s;
  s.batch = batch;
  s.kv_heads = kv_heads;
  s.q_heads = kv_heads * group;
  s.qk_dim = s.v_dim = 128;
  s.context = 511;
  return s;
}

/// Queries and results change their layout where several sequences have several KV heads; results alone are copied else; nothing is
/// where heads have keys of their own or a window hides keys, and nothing is cut there either.
TEST(MmaPagedDecode, CopiesWhereHeadsShareATile) {
  EXPECT_EQ(planned(decode(2, 2, 4)).choice.copies, 2);
  EXPECT_EQ(planned(decode(1, 2, 4)).choice.copies, 1);
  EXPECT_EQ(planned(decode(2, 1, 4)).choice.copies, 1);
  EXPECT_EQ(planned(decode(2, 2, 1)).choice.copies, 0);
  EXPECT_EQ(planned(decode(2, 2, 1)).choice.plan.splits, 1);
  AttentionDecode windowed = decode(2, 2, 4);
  windowed.window = 256;
  const AttentionChoice c = planned(windowed).choice;
  EXPECT_EQ(c.copies, 0);
  EXPECT_EQ(c.main.plan.ctas, 2 * 2 * 4) << "a tile for each query head";
  EXPECT_EQ(c.main.plan.steps, 2) << "of 128 keys";
}

/// A prompt of one token is a step of decode over the tokens before it.
TEST(MmaPagedPrefill, OfOneTokenIsDecode) {
  const AttentionDecode s = decode(3, 2, 4);
  AttentionPrefill one;
  one.batch = s.batch;
  one.q_heads = s.q_heads;
  one.kv_heads = s.kv_heads;
  one.qk_dim = one.v_dim = 128;
  one.q_len = 1;
  one.kv_len = s.context + 1;
  const std::array<FamilyScalars, kAllFamilies> families{};
  const Machine machine = toy_machine();
  const Rates& m = machine.rates();
  const AttentionChoice prompt = plan_mma_paged_prefill(one, false, m, families, kNames);
  const AttentionChoice step = plan_mma_paged_decode(s, false, m, families, {}, kNames);
  EXPECT_EQ(prompt.main.plan.ctas, step.main.plan.ctas);
  EXPECT_DOUBLE_EQ(prompt.main.plan.steps, step.main.plan.steps);
  EXPECT_EQ(prompt.main.dram_read, step.main.dram_read);
  EXPECT_EQ(prompt.copies, 2);
}

}  // namespace
}  // namespace plumbline::mma_paged_attention_test
