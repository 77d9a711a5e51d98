// What one rank of a plan holds: experts, layers of a stage, sequences. By hand.
#include "ops/resolve/ranks.hpp"

#include <gtest/gtest.h>

#include <array>

#include "arch/error.hpp"
#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::ranks_test {
namespace {

lowering::ExpertPlan plan_of(const ParallelPlan& plan, const ExpertLoad& load = {}) {
  Workload w = decode(64, 9);
  w.parallel = plan;
  w.expert_load = load;
  return lowering::expert_plan(w, moe(8, 2, 100));
}

TEST(Ranks, ExpertsStayInATensorGroupOrAreExchangedBeyondIt) {
  EXPECT_EQ(plan_of({.tensor = 4}).width_split, 4);
  EXPECT_FALSE(plan_of({.tensor = 4, .expert = 2}).exchanged);
  EXPECT_EQ(plan_of({.tensor = 4, .expert = 2}).width_split, 2);
  EXPECT_FALSE(plan_of({.tensor = 4, .expert = 4}).exchanged);
  EXPECT_TRUE(plan_of({.tensor = 4, .data = 2, .expert = 8}).exchanged);
  EXPECT_TRUE(plan_of({.tensor = 4, .expert = 4, .attention_data = true}).exchanged) << "each rank has its own tokens";
}

/// Experts of 1, 1/2, 1/3, ... 1/8 parts, dealt out to two ranks in turn: 1 + 1/3 + 1/5 + 1/7 on the first.
TEST(Ranks, TheFullestRankAndItsHottestExpertFollowFromTheLoad) {
  const lowering::ExpertPlan power = plan_of({.data = 2, .expert = 2}, {.power = 1});
  const double first = 1 + 1 / 3.0 + 1 / 5.0 + 1 / 7.0, second = 1 / 2.0 + 1 / 4.0 + 1 / 6.0 + 1 / 8.0;
  EXPECT_NEAR(power.fullest, 2 * first / (first + second), 1e-12);
  EXPECT_NEAR(power.skew, 100, 1e-12) << "1 of a mean of 0.42: as far as the operator goes";
  const lowering::ExpertPlan counted = plan_of({.data = 4, .expert = 4}, {.counts = {1, 1, 1, 1, 3, 1, 0, 0}});
  EXPECT_DOUBLE_EQ(counted.fullest, 4.0 * 4 / 8) << "neighbouring experts share a rank";
  EXPECT_DOUBLE_EQ(counted.skew, 50);
}

TEST(Ranks, StagesDivideLayersAsEvenlyAsTheyDo) {
  std::int64_t next = 0;
  constexpr std::array<std::int64_t, 4> kSizes{3, 3, 2, 2};
  for (std::size_t stage = 0; stage < kSizes.size(); ++stage) {
    const lowering::StageLayers layers = lowering::stage_layers(10, 4, static_cast<std::int64_t>(stage));
    EXPECT_EQ(layers.first, next);
    EXPECT_EQ(layers.last - layers.first, kSizes.at(stage));
    next = layers.last;
  }
}

TEST(Ranks, AMicroBatchIsThatOfTheFullestReplica) {
  Workload w = decode(21, 9);
  w.parallel = {.pipeline = 4, .data = 2};
  EXPECT_EQ(lowering::replica_batch(w), 11);
  EXPECT_EQ(lowering::micro_batches(w), 4);
  EXPECT_EQ(lowering::rank_workload(w).batch, 3);
  w.batch = 3;
  EXPECT_EQ(lowering::micro_batches(w), 2) << "no more than its sequences";
}

TEST(Ranks, DegreesSettleToTheGpus) {
  ParallelPlan plan{.pipeline = 2};
  EXPECT_TRUE(settle_tensor(plan, 8, false));
  EXPECT_EQ(plan.tensor, 4);
  EXPECT_FALSE(settle_tensor(plan, 9, true));
  plan = {.pipeline = std::int64_t{1} << 40, .data = std::int64_t{1} << 40};
  EXPECT_THROW(settle_tensor(plan, 8, false), BadInput) << "no product that overflows";
}

}  // namespace
}  // namespace plumbline::testing_support::ranks_test
