// What our flash attention kernels are compiled for: every width, causal or not, in tiles that the instructions take.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/plan/kernel_menu.hpp"

namespace plumbline::prefill_menu_test {
namespace {

TEST(PrefillMenu, EveryWidthHasATile) {
  for (const std::int64_t dim : {64, 128, 256}) {
    for (const bool causal : {false, true}) {
      const PrefillVariant* v = own_prefill_variant(dim, causal);
      ASSERT_NE(v, nullptr) << dim;
      EXPECT_EQ(v->head_dim, dim);
      EXPECT_EQ(v->causal, causal);
      EXPECT_EQ(v->q_tile % 64, 0) << "a warpgroup's rows";
      EXPECT_EQ(v->kv_tile % 16, 0) << "a tensor instruction's depth";
      EXPECT_EQ(v->ctas_per_sm, 1);
    }
  }
}

TEST(PrefillMenu, OtherWidthsHaveNone) {
  for (const std::int64_t dim : {0, 32, 80, 96, 192, 512}) EXPECT_EQ(own_prefill_variant(dim, true), nullptr) << dim;
}

/// What cards of 100 KB have for a CTA (sm_86, sm_89, sm_120), and the shape of mma.sync's tiles.
TEST(PrefillMenu, PortableTilesFitEveryCard) {
  constexpr std::int64_t kLeastSharedMemory = 99 * 1024;
  for (const std::int64_t dim : {64, 128}) {
    std::int64_t least = kLeastSharedMemory;
    for (const PortablePrefillVariant& v : own_portable_prefill_menu()) {
      if (v.head_dim != dim) continue;
      EXPECT_LE(shared_bytes(v), kLeastSharedMemory);
      EXPECT_EQ(v.q_tile % 32, 0) << "a warp's rows";
      EXPECT_EQ(v.kv_tile % 16, 0) << "a tensor instruction's depth";
      EXPECT_GE(v.stages, 1);
      least = std::min(least, shared_bytes(v));
    }
    EXPECT_LE(2 * (least + 1024), 100 * 1024) << "no tile of width " << dim << " leaves room for a second CTA";
  }
}

TEST(PrefillMenu, SharedMemoryOfAPortableTile) {
  EXPECT_EQ(shared_bytes({128, 64, 64, 1, 4}), (64 + 2 * 64) * 256);
  EXPECT_EQ(shared_bytes({64, 128, 64, 2, 2}), (128 + 4 * 64) * 128);
}

}  // namespace
}  // namespace plumbline::prefill_menu_test
