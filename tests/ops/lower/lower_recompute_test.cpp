// Training that computes some layers again, and what experts keep in fp8.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "arch/error.hpp"
#include "ops/memory/memory.hpp"
#include "ops/resolve/ranks.hpp"
#include "tests/ops/lower/lower_models.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::testing_support::lower_recompute_test {
namespace {

using ::testing::HasSubstr;

Workload again(std::int64_t layers, Recompute recompute = Recompute::full) {
  Workload w = train(4, 512);
  w.training.recompute = recompute;
  w.training.recomputed_layers = layers;
  return w;
}

std::int64_t executions(const Graph& g, const std::string& name, bool computed_again) {
  std::int64_t count = 0;
  for (const Node& node : g.nodes) {
    if (node.pass == Pass::backward && node.again == computed_again && node.name == name) count += node.count;
  }
  return count;
}

/// Megatron's recompute_method block: the first layers run forward once more, gradients of all are made once.
TEST(LowerRecompute, FirstLayersAloneRunAgain) {
  const Llm m = llama_8b();
  const Graph five = lower(m, again(5)), all = lower(m, again(0)), none = lower(m, again(0, Recompute::none));
  EXPECT_EQ(executions(five, "attention.recompute", true), 5);
  EXPECT_EQ(executions(all, "attention.recompute", true), 32);
  EXPECT_EQ(executions(five, "o_proj.dx", false), 32);
  EXPECT_DOUBLE_EQ(tensor_flops(five) - tensor_flops(none), 5 / 32.0 * (tensor_flops(all) - tensor_flops(none)));
  EXPECT_DOUBLE_EQ(tensor_flops(lower(m, again(32))), tensor_flops(all));
}

/// They keep their input, the others all; when the first ones have all of a layer, those behind keep nothing any more.
TEST(LowerRecompute, FirstLayersKeepTheirInputAlone) {
  const Llm m = llama_8b();
  const auto kept = [&m](const Workload& w) { return memory_need(m, w).activations.in(units::B); };
  const double none = kept(again(0, Recompute::none)), input = 4 * 512 * 4096 * 2.0;
  const double head = 4 * 512 * (2 * 4096 + 128256) * 2.0, layer = (none - head) / 32;
  EXPECT_DOUBLE_EQ(kept(again(5)), 27 * layer + 5 * input + head);
  EXPECT_DOUBLE_EQ(kept(again(32)), layer + 32 * input + head);
  EXPECT_DOUBLE_EQ(kept(again(32)), kept(again(0)));
}

/// Three of 61 layers have no experts: the first four are those and one that has.
TEST(LowerRecompute, FirstLayersOfSeveralKindsAreCountedByKind) {
  const Llm m = deepseek_v3();
  EXPECT_EQ(lowering::layers_by_kind(m.main(), {0, 2}), (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(lowering::layers_by_kind(m.main(), {0, 4}), (std::vector<std::int64_t>{3, 1}));
  Workload w = again(4);
  w.parallel.expert = w.parallel.data = 8;
  w.batch = 32;
  const Graph g = lower(m, w);
  EXPECT_EQ(executions(g, "o_proj.recompute", true), 4);
  EXPECT_EQ(executions(g, "router.recompute", true), 1);
}

TEST(LowerRecompute, RefusalsNameTheRule) {
  const auto refused = [](const Workload& w) { return refusal([&w] { lowering::refuse_plan(llama_8b(), w); }); };
  EXPECT_THAT(refused(again(33)), HasSubstr("expected at most the model's 32"));
  EXPECT_THAT(refused(again(5, Recompute::none)), HasSubstr("expected it with recompute full"));
  EXPECT_EQ(refused(again(5)), "(accepted)");
  const auto not_modelled = [](const Workload& w) -> std::string {
    try {
      lowering::refuse_plan(llama_8b(), w);
    } catch (const NotModelled& e) {
      return e.what();
    }
    return "(accepted)";
  };
  Workload staged = again(5), eager = again(5);
  staged.parallel.pipeline = 2;
  EXPECT_THAT(not_modelled(staged), HasSubstr("recompute-layers 5: not modelled in a pipeline"));
  train_eagerly(eager);
  EXPECT_THAT(not_modelled(eager), HasSubstr("recompute-layers 5: of stacks that fuse alone"));
}

/// A byte in place of two of each row that an expert's product reads, and that queries, keys and values are made of.
TEST(LowerRecompute, ExpertsInFp8KeepTheirCastInputs) {
  Workload w = train(4, 512);
  const double wide = memory_need(mixtral(), w).activations.in(units::B);
  w.precision_given = true;
  w.precision = *parse_precision("fp8");
  const double narrow = memory_need(mixtral(), w).activations.in(units::B);
  EXPECT_DOUBLE_EQ(wide - narrow, 32 * 4 * 512 * (2 * (4096 + 14336.0) + 4096));
}

}  // namespace
}  // namespace plumbline::testing_support::lower_recompute_test
