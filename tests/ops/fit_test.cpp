// What fits: the largest batch and length hold, one more does not.
#include "ops/memory/fit.hpp"

#include <gtest/gtest.h>

#include "ops/memory/memory.hpp"
#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::fit_test {
namespace {

constexpr Bytes kCard = 80.0 * units::GB;

TEST(Fit, TheLargestBatchAndLengthHoldAndOneMoreDoesNot) {
  for (const Llm& m : all_models()) {
    for (Workload w : {prefill(1, 64), decode(1, 64)}) {
      if (w.phase == Phase::decode && !is_decoder(m)) continue;
      const Bytes reserve = 8.0 * units::GB;
      const Fit fit = fit_of(m, w, kCard, reserve);
      const auto holds = [&](const Workload& other) { return memory_need(m, other).total() <= kCard - reserve; };
      EXPECT_EQ(fit.fits, holds(w)) << m.name;
      if (fit.max_batch) {
        Workload most = w;
        most.batch = *fit.max_batch;
        if (most.batch > 0) {
          EXPECT_TRUE(holds(most)) << m.name;
        }
        ++most.batch;
        EXPECT_FALSE(holds(most)) << m.name;
      }
      if (fit.max_context) {
        Workload most = w;
        std::int64_t& length = w.phase == Phase::decode ? most.context : most.prompt;
        length = *fit.max_context;
        if (length > 0) {
          EXPECT_TRUE(holds(most)) << m.name;
        }
        ++length;
        EXPECT_FALSE(holds(most)) << m.name;
      }
    }
  }
}

TEST(Fit, TheReserveIsNotForTheModel) {
  const Llm m = llama_70b();  // 141 GB in bf16
  const Bytes need = memory_need(m, decode(1, 64)).total();
  EXPECT_TRUE(fit_of(m, decode(1, 64), need, Bytes{}).fits);
  EXPECT_FALSE(fit_of(m, decode(1, 64), need, 1.0 * units::B).fits);
}

TEST(Fit, FewestGpusHoldItAndOneLessDoesNot) {
  const Llm m = llama_70b();
  const Fit fit = fit_of(m, decode(1, 64), kCard, 8.0 * units::GB);
  EXPECT_FALSE(fit.fits);
  EXPECT_EQ(fit.max_batch, 0);
  EXPECT_EQ(fit.max_context, 0);
  EXPECT_EQ(fit.fewest_gpus, 2);  // 141 GB over 72 GB each
  EXPECT_EQ(fit_of(llama_8b(), decode(1, 64), kCard, Bytes{}).fewest_gpus, 1);
  EXPECT_EQ(fit_of(m, decode(1, 64), 20.0 * units::MB, Bytes{}).fewest_gpus, std::nullopt) << "the workspace alone";
}

TEST(Fit, AStateThatDoesNotGrowSetsNoLimitToTheContext) {
  EXPECT_EQ(fit_of(mamba2(), decode(1, 64), kCard, Bytes{}).max_context, std::nullopt);
}

TEST(Fit, CachedTokensCountAmongTheLongestSequence) {
  Workload behind = prefill(1, 64);
  behind.cached = 1 << 16;
  const Llm m = llama_8b();
  const auto fresh = fit_of(m, prefill(1, 64), kCard, Bytes{}).max_context;
  const auto chunk = fit_of(m, behind, kCard, Bytes{}).max_context;
  ASSERT_TRUE(fresh && chunk);
  EXPECT_GT(*chunk, *fresh) << "a chunk has fewer activations than the whole";
}

TEST(Fit, OfTwoStepsTheTighterCounts) {
  Fit a, b;
  a.max_batch = 3, a.fewest_gpus = 2;
  b.fits = false, b.max_context = 7, b.fewest_gpus = 1;
  const Fit of_both = both(a, b);
  EXPECT_FALSE(of_both.fits);
  EXPECT_EQ(of_both.max_batch, 3);
  EXPECT_EQ(of_both.max_context, 7);
  EXPECT_EQ(of_both.fewest_gpus, 2);
}

}  // namespace
}  // namespace plumbline::testing_support::fit_test
