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

}  // namespace
}  // namespace plumbline
