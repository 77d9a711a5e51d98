// What our flash attention kernels are compiled for: every width, causal or not, in tiles that the instructions take.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace plumbline::prefill_menu_test
