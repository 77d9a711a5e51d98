// Training with experts on other ranks: what travels, what is added up over which ranks, what each rank holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "arch/error.hpp"
#include "ops/lower/parts.hpp"
#include "ops/memory/memory.hpp"
#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::lower_train_experts_test {
namespace {

using ::testing::HasSubstr;

Workload on_ranks(Workload w, std::int64_t tensor, std::int64_t data, std::int64_t expert) {
  w.parallel.tensor = tensor;
  w.parallel.data = data;
  w.parallel.expert = expert;
  return w;
}

constexpr double kMixtralExperts = 32 * 8 * 3 * 4096.0 * 14336;

/// Two all-to-alls forward and two backward a layer, of all routed rows: 256 tokens x 2 experts x 4096 x 2 bytes.
TEST(TrainExperts, TokensTravelThereAndBackInBothPasses) {
  const Graph g = lower(mixtral(), on_ranks(train(8, 256), 1, 8, 8));
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (const char* name : {"moe_dispatch", "moe_collect"}) {
      const Node* node = find(g, name, pass);
      ASSERT_NE(node, nullptr) << name;
      const auto& moved = std::get<Collective>(node->op);
      EXPECT_EQ(moved.kind, CollectiveKind::all_to_all);
      EXPECT_EQ(moved.bytes, 256 * 2 * 4096 * 2);
      EXPECT_EQ(moved.gpus, 8);
      EXPECT_EQ(node->count, 32);
    }
  }
  EXPECT_EQ(find(g, "moe_sort"), nullptr) << "one expert a rank";
  const Graph two = lower(mixtral(), on_ranks(train(4, 256), 1, 4, 4));
  EXPECT_EQ(shape_of<MoePermute>(two, "moe_sort").tokens, 512);
  EXPECT_NE(find(two, "moe_unsort", Pass::backward), nullptr);
}

/// The ranks' experts together have the products of one GPU with all of them.
TEST(TrainExperts, RanksTogetherDoTheWork) {
  for (const Llm& m : {mixtral(), deepseek_v3()}) {
    const double one = tensor_flops(lower(m, train(8, 256)));
    for (const auto& [tensor, data, expert] : {std::array<std::int64_t, 3>{1, 8, 8}, {1, 8, 2}, {2, 4, 8}, {4, 2, 2}}) {
      const double rank = tensor_flops(lower(m, on_ranks(train(8, 256), tensor, data, expert)));
      EXPECT_GE(rank * d(tensor * data), one * (1 - 1e-12)) << m.name << tensor << data << expert;
    }
  }
}

/// Experts of eight groups of two ranks: each rank's are added up over the other group's rank in its place, eight away.
TEST(TrainExperts, GradientsOfExpertsAreAddedUpOverTheirCopiesAlone) {
  Workload w = on_ranks(train(16, 256), 1, 16, 8);
  const Llm m = mixtral();
  const double rest = m.params - kMixtralExperts;
  for (const int zero : {0, 1}) {
    w.parallel.zero = zero;
    const Graph g = lower(m, w);
    const std::string sum = zero == 0 ? "grad_all_reduce" : "grad_reduce_scatter";
    const auto& dense = shape_of<Collective>(g, sum, Pass::update);
    const auto& experts = shape_of<Collective>(g, "expert_" + sum, Pass::update);
    EXPECT_NEAR(d(dense.bytes), 4 * rest, 4);
    EXPECT_NEAR(d(experts.bytes), 4 * kMixtralExperts / 8, 4);
    EXPECT_EQ(dense.gpus, 16);
    EXPECT_EQ(experts.gpus, 2);
    EXPECT_EQ(experts.stride, 8);
    const auto& adam = shape_of<Rowwise>(g, "adamw", Pass::update);
    const double share = zero == 0 ? rest + kMixtralExperts / 8 : rest / 16 + kMixtralExperts / 16;
    EXPECT_NEAR(d(adam.rows) * d(adam.cols), share, 4096);
    EXPECT_NEAR(g.memory.optimizer.in(units::B), 12 * share, 1e-6 * 12 * share);
    EXPECT_NEAR(g.memory.gradients.in(units::B), 4 * (rest + kMixtralExperts / 8), 8);
  }
  w.parallel.expert = 16;
  const Llm fine = deepseek_v3();
  EXPECT_EQ(find(lower(fine, w), "expert_grad_reduce_scatter", Pass::update), nullptr) << "nobody else holds them";
}

/// Beyond a tensor group shared experts are whole on each of its ranks, for tokens of its own.
TEST(TrainExperts, SharedExpertsAreAddedUpOverTensorRanksToo) {
  const Workload w = on_ranks(train(8, 256), 2, 4, 8);
  const Llm m = deepseek_v3();
  const HeldParams held = held_params(m, w);
  EXPECT_DOUBLE_EQ(held.shared.params, 58 * 3 * 2048.0 * 7168);
  EXPECT_EQ(held.shared.ranks, 8);
  EXPECT_EQ(held.shared.apart, 1);
  EXPECT_EQ(held.dense.ranks, 4);
  EXPECT_EQ(held.dense.apart, 2);
  EXPECT_DOUBLE_EQ(held.experts.params, 58 * 32 * 3 * 2048.0 * 7168);
  EXPECT_EQ(held.experts.ranks, 1);
  EXPECT_NEAR(held.total() / local_params(m, w), 1, 1e-12);
  const Graph g = lower(m, w);
  EXPECT_EQ(shape_of<Collective>(g, "shared_grad_all_reduce", Pass::update).gpus, 8);
}

/// Each parameter travels once a micro-batch, whoever holds it.
TEST(TrainExperts, SharedOutParametersTravelLayerByLayer) {
  Workload w = on_ranks(train(16, 64), 1, 16, 8);
  w.parallel.zero = 3;
  const Llm m = mixtral();
  double dense = 0, experts = 0;
  for (const Node& n : lower(m, w).nodes) {
    const auto* c = std::get_if<Collective>(&n.op);
    if (c == nullptr || c->kind != CollectiveKind::reduce_scatter) continue;
    (c->gpus == 2 ? experts : dense) += d(c->bytes) * d(n.count);
  }
  EXPECT_NEAR(experts, 4 * kMixtralExperts / 8, 4 * 33);
  EXPECT_NEAR(dense, 4 * (m.params - kMixtralExperts), 4 * 33);
}

TEST(TrainExperts, TheFullestRankIsPriced) {
  Workload w = on_ranks(train(8, 256), 1, 8, 8);
  const Graph even = lower(mixtral(), w);
  w.expert_load.counts = {4, 1, 1, 1, 1, 1, 1, 2};  // of 12: a third, which is 8 / 3 of the mean
  const Graph skewed = lower(mixtral(), w);
  const auto rows = [](const Graph& g, const char* node, Pass pass) {
    return shape_of<GroupedGemm>(g, node, pass).tokens;
  };
  EXPECT_EQ(rows(even, "experts_down.dw", Pass::backward), 512);
  EXPECT_EQ(rows(skewed, "experts_down.dw", Pass::backward), (512 * 8 + 2) / 3);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    EXPECT_EQ(shape_of<Collective>(skewed, "moe_dispatch", pass).bytes, (512 * 8 + 2) / 3 * 4096 * 2);
  }
  EXPECT_GT(skewed.memory.activations, even.memory.activations);
}

/// What a rank keeps of routed rows does not depend on how many ranks they are dealt to, where tokens travel.
TEST(TrainExperts, ActivationsAreThoseOfTheRanksOwnRows) {
  const Bytes eight = lower(mixtral(), on_ranks(train(8, 256), 1, 8, 8)).memory.activations;
  const Bytes one = lower(mixtral(), on_ranks(train(8, 256), 1, 8, 1)).memory.activations;
  EXPECT_NEAR(eight / one, 1, 1e-12);
}

/// Rows in the order of experts are as wide as the model whatever the tensor ranks split: tokens are gathered in front.
TEST(TrainExperts, RoutedRowsAreKeptWholeWhereTokensAreSplit) {
  Workload w = on_ranks(train(8, 256), 2, 1, 1);
  const double whole = lower(mixtral(), w).memory.activations.in(units::B);
  w.parallel.sequence = true;
  const double split = lower(mixtral(), w).memory.activations.in(units::B);
  // two norms' inputs, that of the products of attention and the router's are halved; and the head's two
  const double tokens = 8 * 256, halved = tokens * 4096 * 2.0 * (32 * 4 + 2) / 2;
  EXPECT_NEAR(whole - split, halved, 1e-9 * whole);
}

TEST(TrainExperts, RefusedPlansNameTheRule) {
  const auto refusal = [](const Workload& w) -> std::string {
    try {
      (void)lower(mixtral(), w);
    } catch (const Error& error) {
      return error.what();
    }
    return "(accepted)";
  };
  EXPECT_THAT(refusal(on_ranks(train(8, 64), 1, 8, 3)), HasSubstr("a divisor of tp x cp x dp = 8"));
  EXPECT_THAT(refusal(on_ranks(train(16, 64), 1, 16, 16)), HasSubstr("at most its 8 experts"));
  Workload eager = on_ranks(train(8, 64), 1, 8, 8);
  eager.training.eager = true;
  EXPECT_THAT(refusal(eager), HasSubstr("eager frameworks train all experts on each replica; expected 1"));
}

}  // namespace
}  // namespace plumbline::testing_support::lower_train_experts_test
