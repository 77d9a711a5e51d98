// FlashAttention-3 on cards with mma.sync: tiles by hand, as hopper/tile_size.h has them, and what a plan makes of them.
#include "model/stacks/flash_attention/third_mma.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/flash_attention/plan_attention.hpp"

namespace plumbline::third_mma_test {
namespace {

using namespace flash_attention;

constexpr MmaPagedFamilies kNames{kDecodeMma, kDecodeMmaSmall, kCacheWrite, kTranspose, kCopy, kMergeMma};

std::string tile(const ThirdQuestion& q) {
  const ThirdTile t = third_tile(q);
  const auto whole = [](double v) { return std::to_string(static_cast<int>(v)); };
  return whole(t.rows) + "x" + whole(t.keys) + " " + whole(t.warps) + (t.holds_queries ? " Q" : "");
}

Machine machine_of(const char* gpu, const char* attention = "") {
  StackChoice stack("sglang");
  stack.attention = attention;
  MachineOptions options{stack};
  options.clock = ClockMode::burst;
  return machines().get({gpu, options});
}

AttentionPrefill prompt(std::int64_t width) {
  AttentionPrefill s;
  s.batch = 4;
  s.q_heads = 32;
  s.kv_heads = 8;
  s.qk_dim = s.v_dim = width;
  s.q_len = s.kv_len = 2048;
  return s;
}

TEST(ThirdTiles, GoByWidthsAndSharedMemory) {
  EXPECT_EQ(tile({64, false, false, true}), "128x112 4");
  EXPECT_EQ(tile({96, false, false, true}), "128x64 4");
  EXPECT_EQ(tile({128, false, false, true}), "128x128 8 Q");
  EXPECT_EQ(tile({128, false, false, false}), "128x64 4") << "8.0 and 8.7";
  EXPECT_EQ(tile({192, false, false, true}), "128x64 8") << "96 keys where none lie in pages";
  EXPECT_EQ(tile({256, false, false, true}), "128x64 8 Q");
  EXPECT_EQ(tile({256, false, false, false}), "128x96 8");
  EXPECT_EQ(tile({128, true, false, true}), "128x96 8 Q") << "behind a window";
  EXPECT_EQ(tile({128, false, true, false}), "128x112 8 Q") << "in parts";
  EXPECT_EQ(tile({64, false, true, true}), "128x80 4");
}

/// Heads of 64: 16 KiB of queries, 28 of keys and values: two CTAs in 100 KiB. Heads of 128 with queries in registers: 32 KiB of keys
/// and as much of values, in 256 threads: one.
TEST(ThirdTiles, ShareAnSm) {
  const Machine ada = machine_of("l40s");
  EXPECT_EQ(third_ctas(third_tile({64, false, false, true}), 64, 64, 2, ada.rates()), 2);
  EXPECT_EQ(third_ctas(third_tile({128, false, false, true}), 128, 128, 2, ada.rates()), 1);
}

/// Four query heads of a KV head share a tile of 128 rows: 32 queries each, 64 tiles of a sequence and KV head.
TEST(ThirdPlan, PacksTheHeadsOfAGroup) {
  const Machine ada = machine_of("l40s");
  const std::array<FamilyScalars, kAllFamilies> families{};
  const AttentionChoice c = plan_third_mma_prefill(prompt(128), false, ada.rates(), families, kNames);
  EXPECT_EQ(c.plan.packed_heads, 4);
  EXPECT_EQ(c.main.plan.ctas, 4 * 8 * 64);
  EXPECT_EQ(c.main.plan.threads, 256);
  EXPECT_EQ(c.main.plan.longest, 2048 / 128);
  // two products of 128 x 128 x 128
  EXPECT_DOUBLE_EQ(c.main.tensor_clk, 2 * 2.0 * 128 * 128 * 128 / ada.gpu().sm.tensor_flop_per_clk[DType::bf16]);
}

/// Asked for by name it runs where it has kernels; a server by itself takes FlashInfer on 8.x, and 12.x has none.
TEST(ThirdPlan, RunsWhereItIsAskedFor) {
  const auto provider = [](const char* gpu, const char* attention) {
    OpPrediction out;
    Predictor().predict(prompt(128), machine_of(gpu, attention), out, {});
    return out.provider;
  };
  EXPECT_EQ(provider("l40s", "flash-attention-3"), "flash_attention_3_named");
  EXPECT_EQ(provider("a100_sxm", "flash-attention-3"), "flash_attention_3_named");
  EXPECT_EQ(provider("l40s", ""), "flashinfer");
  const Rates& blackwell = machine_of("rtx_pro_6000_server").rates();
  EXPECT_FALSE(runs_third_on_mma(blackwell));
}

}  // namespace
}  // namespace plumbline::third_mma_test
