// The walk's few ways to append a node: dependencies, shares of a rank, quantization, exchanges, names of gradients.
#include "ops/step/step.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace plumbline::lowering::step_test {
namespace {

class Walk : public ::testing::Test {
 protected:
  Step begin(const Types& types = {}) {
    Step s(workload, types, graph);
    s.hidden = 64;
    s.tokens = 10;
    s.open("layer", 3);
    return s;
  }
  Workload workload;
  Graph graph;
};

TEST_F(Walk, NodesWaitForTheOneBeforeAndOnceForAJoin) {
  Step s = begin();
  s.copy("a"_node, 1, 1);
  s.copy("b"_node, 1, 1);
  s.join = 0;
  s.copy("c"_node, 1, 1);
  s.copy("d"_node, 1, 1);
  const auto depends = [&](std::size_t i) { return graph.nodes[i].depends; };
  EXPECT_EQ(depends(0), (std::array{-1, -1}));
  EXPECT_EQ(depends(1), (std::array{0, -1}));
  EXPECT_EQ(depends(2), (std::array{1, 0}));
  EXPECT_EQ(depends(3), (std::array{2, -1}));
  EXPECT_EQ(graph.nodes[3].count, 3);
  EXPECT_EQ(graph.nodes[3].segment, 0);
}

TEST_F(Walk, SegmentsWithoutNodesAreTakenBack) {
  Step s = begin();
  s.close();
  EXPECT_TRUE(graph.segments.empty());
  s.open("head", 1);
  s.copy("a"_node, 1, 1);
  s.close();
  ASSERT_EQ(graph.segments.size(), 1u);
  EXPECT_EQ(graph.segments[0].size, 1);
  EXPECT_EQ(graph.nodes[0].segment, 0);
}

TEST_F(Walk, ARankHasAtLeastOneOfWhatIsSplit) {
  workload.parallel.tensor = 8;
  const Step s = begin();
  EXPECT_EQ(s.share(64), 8);
  EXPECT_EQ(s.share(65), 9);
  EXPECT_EQ(s.share(2), 1);
  workload.parallel.tensor = 1;
  EXPECT_EQ(begin().share(65), 65);
}

TEST_F(Walk, CachedKeysHaveTheCachesFormat) {
  Types types;
  types.kv = DType::fp8;
  Step s = begin(types);
  EXPECT_EQ(s.kept(), DType::bf16);
  s.cache = true;
  EXPECT_EQ(s.kept(), DType::fp8);
}

TEST_F(Walk, QuantizesForNarrowConsumersUnlessTheProducerDoes) {
  const Precision fp8 = *parse_precision("fp8"), weight_only = *parse_precision("w4a16");
  Step s = begin();
  s.quantize("none"_node, 10, 64, Precision{});
  s.quantize("weights"_node, 10, 64, weight_only);
  EXPECT_TRUE(graph.nodes.empty());
  s.quantize("inputs"_node, 10, 64, fp8);
  ASSERT_EQ(graph.nodes.size(), 1u);
  const auto& op = std::get<Rowwise>(graph.nodes[0].op);
  EXPECT_EQ(op.kind, RowwiseKind::quantize);
  EXPECT_EQ(op.input, DType::bf16);
  EXPECT_EQ(op.output, DType::fp8);
  workload.fusion = Fusion::max;
  Step fused = begin();
  fused.quantize("inputs"_node, 10, 64, fp8);
  EXPECT_EQ(graph.nodes.size(), 1u);
}

TEST_F(Walk, ExchangesAreOfHiddenStatesOnTheSecondStreamAndOnlyAmongRanks) {
  Step one = begin();
  one.all_reduce("reduce"_node, "scatter"_node, 10);
  EXPECT_TRUE(graph.nodes.empty());
  workload.parallel.tensor = 4;
  Step s = begin();
  s.all_reduce("reduce"_node, "scatter"_node, 10);
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(std::get<Collective>(graph.nodes[0].op), (Collective{CollectiveKind::all_reduce, 10 * 64 * 2, 4}));
  EXPECT_EQ(graph.nodes[0].stream, 1);
}

TEST_F(Walk, AScatteredResidualStreamIsGatheredInFrontOfAPartAndScatteredBehindIt) {
  workload.parallel.tensor = 4;
  Step s = begin();
  s.scattered = true;
  s.tokens = 3;
  s.on_replica("gather"_node, [&] {
    EXPECT_EQ(s.tokens, 12);
    EXPECT_EQ(s.replica_tokens(), 12);
    s.all_reduce("reduce"_node, "scatter"_node, s.tokens);
  });
  EXPECT_EQ(s.tokens, 3);
  ASSERT_EQ(graph.nodes.size(), 2u);
  const std::int64_t bytes = std::int64_t{12} * 64 * 2;
  EXPECT_EQ(std::get<Collective>(graph.nodes[0].op), (Collective{CollectiveKind::all_gather, bytes, 4}));
  EXPECT_EQ(std::get<Collective>(graph.nodes[1].op), (Collective{CollectiveKind::reduce_scatter, bytes, 4}));
}

TEST_F(Walk, ExchangesBeyondReasonStayWholeNumbers) {
  EXPECT_EQ(whole_bytes(10.5 * units::B), 11);
  EXPECT_EQ(whole_bytes(1e30 * units::B), std::int64_t{1} << 62);
  workload.parallel.tensor = 2;
  Step s = begin();
  s.hidden = std::int64_t{1} << 31;
  s.all_reduce("reduce"_node, "scatter"_node, std::int64_t{1} << 40);
  EXPECT_EQ(std::get<Collective>(graph.nodes[0].op).bytes, std::int64_t{1} << 62);
}

TEST_F(Walk, NormsAreOfTheirKind) {
  Step s = begin();
  s.norm("rms"_node, NormKind::rms, 10, 64);
  s.norm("layer"_node, NormKind::layer, 10, 64, true);
  EXPECT_EQ(std::get<Rowwise>(graph.nodes[0].op).kind, RowwiseKind::rmsnorm);
  EXPECT_EQ(std::get<Rowwise>(graph.nodes[1].op).kind, RowwiseKind::layernorm);
  EXPECT_TRUE(std::get<Rowwise>(graph.nodes[1].op).residual);
}

TEST(NodeNames, HaveAnEndForEachPartOfAGradient) {
  const NodeName& name = *("proj"_node).name;
  EXPECT_STREQ(name.whole, "proj");
  using enum GradientPart;
  const std::array parts{whole, dx, dw, dq, dk, dp, dv, recompute, reverse};
  const std::array ends{"", ".dx", ".dw", ".dq", ".dk", ".dp", ".dv", ".recompute", ".reverse"};
  for (std::size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(name.of(parts[i]), std::string("proj") + ends[i]);
  EXPECT_EQ(("proj"_node).role, NodeRole::plain);
  EXPECT_EQ(("proj"_node).as(NodeRole::scores).role, NodeRole::scores);
  EXPECT_EQ(("proj"_node).as(NodeRole::scores).name, &name);
}

}  // namespace
}  // namespace plumbline::lowering::step_test
