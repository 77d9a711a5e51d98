// Shape of the graph itself, for every model, phase and fusion level.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "tests/ops/lower/lower_checks.hpp"
#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::lower_graph_test {
namespace {

using ::testing::HasSubstr;

TEST(LowerGraph, SegmentsCountsAndDependenciesHold) {
  for (const Llm& m : all_models()) {
    for (const Workload& w : workloads(m)) {
      check_graph(m, lower(m, w));
    }
  }
}

TEST(LowerGraph, EveryNodeButTheLastIsWaitedFor) {
  for (const Llm& m : all_models()) {
    for (const Workload& w : workloads(m)) {
      const Graph g = lower(m, w);
      std::vector<int> waiters(g.nodes.size(), 0);
      for (const Node& n : g.nodes) {
        for (const int d : n.depends) {
          if (d >= 0) ++waiters[static_cast<std::size_t>(d)];
        }
      }
      for (std::size_t i = 0; i + 1 < waiters.size(); ++i) {
        EXPECT_GE(waiters[i], 1) << m.name << ' ' << g.nodes[i].name;
      }
    }
  }
}

TEST(LowerGraph, LayersAreFoldedByKind) {
  const Graph g = lower(deepseek_v3(), decode(1, 100));
  std::int64_t layers = 0;
  for (const Segment& s : g.segments) {
    if (s.repeat > 1) layers += s.repeat;
  }
  EXPECT_EQ(g.segments.size(), 4u);  // embedding, dense layers, MoE layers, head
  EXPECT_EQ(layers, 61);
}

TEST(LowerGraph, StorageIsReused) {
  Graph g;
  const Llm m = deepseek_v3();
  lower(m, decode(1, 100), g);
  const Node* nodes = g.nodes.data();
  const Segment* segments = g.segments.data();
  const std::size_t size = g.nodes.size();
  lower(m, decode(7, 9000), g);
  EXPECT_EQ(g.nodes.data(), nodes);
  EXPECT_EQ(g.segments.data(), segments);
  EXPECT_EQ(g.nodes.size(), size);
}

TEST(LowerGraph, SharedExpertIsABranchBesideTheRoutedOnes) {
  const Graph g = lower(deepseek_v3(), decode(1, 100));
  const Node* router = find(g, "router");
  const Node* add = find(g, "shared_add");
  ASSERT_NE(router, nullptr);
  ASSERT_NE(add, nullptr);
  EXPECT_STREQ(g.nodes[static_cast<std::size_t>(router->depends[0])].name, "ffn_norm");
  EXPECT_STREQ(g.nodes[static_cast<std::size_t>(add->depends[0])].name, "moe_combine");
  EXPECT_STREQ(g.nodes[static_cast<std::size_t>(add->depends[1])].name, "shared_down_proj");
}

TEST(LowerGraph, TokensOfTheStep) {
  EXPECT_EQ(lower(llama_8b(), decode(12, 100)).tokens, 12);
  EXPECT_EQ(lower(llama_8b(), prefill(12, 100)).tokens, 1200);
  EXPECT_EQ(lower(vit(), prefill(12, 100)).tokens, 12 * 197);
}

TEST(LowerGraph, EncodersDoNotDecode) {
  for (const Llm& m : {bert(), vit(), flux()}) {
    try {
      lower(m, decode(1, 1));
      ADD_FAILURE() << m.name << " decoded";
    } catch (const BadInput& e) {
      EXPECT_THAT(e.what(), HasSubstr(m.name));
      EXPECT_THAT(e.what(), HasSubstr("phase decode: expected prefill or train"));
    }
  }
}

TEST(LowerGraph, SizesBeyondReasonAreRefused) {
  const std::int64_t many = std::int64_t{1} << 30;
  EXPECT_THROW(lower(llama_8b(), prefill(many, many)), BadInput);  // their product would not fit
  EXPECT_THROW(lower(llama_8b(), decode(many, many)), BadInput);
  EXPECT_NO_THROW(lower(llama_8b(), decode(1, many)));
  const Workload w = decode(0, 1);
  EXPECT_THROW(lower(llama_8b(), w), BadInput);
  EXPECT_THROW(lower(Llm{}, decode(1, 1)), BadInput);
}

TEST(LowerGraph, LogitsOfTheLastTokenInPrefillOfAllInTraining) {
  EXPECT_EQ(shape_of<Gemm>(lower(llama_8b(), prefill(3, 50)), "lm_head").m, 3);
  EXPECT_EQ(shape_of<Gemm>(lower(llama_8b(), train(3, 50)), "lm_head").m, 150);
  EXPECT_EQ(find(lower(bert(), prefill(3, 50)), "lm_head"), nullptr);
}

}  // namespace
}  // namespace plumbline::testing_support::lower_graph_test
