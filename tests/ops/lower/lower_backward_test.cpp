// The backward pass of a graph written by hand: order, names, counts, streams.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/lower/parts.hpp"

namespace plumbline::lowering::lower_backward_test {
namespace {

class Backward : public ::testing::Test {
 protected:
  Backward() { workload.phase = Phase::train; }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Node& node : graph.nodes) all.emplace_back(node.name);
    return all;
  }
  Workload workload;
  Types types;
  Graph graph;
};

TEST_F(Backward, RunsSegmentsAndNodesInReverseAndLeavesOutWhatHasNoGradient) {
  Step s(workload, types, graph);
  s.open("first", 3);
  s.linear("a"_node, 8, 16, 4);
  s.row("b"_node, RowwiseKind::silu, 8, 16);
  s.close();
  s.open("second", 1);
  s.row("c"_node, RowwiseKind::argmax, 8, 16);
  s.close();
  s.open("third", 2);
  s.add("d"_node, Collective{CollectiveKind::all_reduce, 64, 2, DType::bf16}, 1);
  s.close();
  backward(s, Llm{});

  EXPECT_EQ(names(), (std::vector<std::string>{"a", "b", "c", "d", "d", "b", "a.dx", "a.dw"}));
  ASSERT_EQ(graph.segments.size(), 5u);
  EXPECT_STREQ(graph.segments[3].name, "third");
  EXPECT_EQ(graph.segments[3].forward, 2);
  EXPECT_STREQ(graph.segments[4].name, "first") << "the second has no gradient, so no segment either";
  EXPECT_EQ(graph.segments[3].repeat, 2);
  EXPECT_EQ(graph.segments[4].first, 5);
  EXPECT_EQ(graph.segments[4].size, 3);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    EXPECT_EQ(graph.nodes[i].pass, i < 4 ? Pass::forward : Pass::backward) << i;
    EXPECT_EQ(graph.nodes[i].depends[0], static_cast<int>(i) - 1) << i;
  }
  EXPECT_EQ(graph.nodes[4].count, 2);
  EXPECT_EQ(graph.nodes[7].count, 3);
  EXPECT_EQ(graph.nodes[4].stream, 1) << "an exchange of gradients runs where that of activations did";
  EXPECT_EQ(graph.nodes[5].stream, 0);
  EXPECT_EQ(std::get<Gemm>(graph.nodes[6].op), (Gemm{8, 4, 16, 1, types.linear, false, WeightLayout::kn}));
  Precision into_fp32 = types.linear;
  into_fp32.output = DType::fp32;
  EXPECT_EQ(std::get<Gemm>(graph.nodes[7].op), (Gemm{16, 4, 8, 1, into_fp32, false, WeightLayout::km, true}))
      << "gradients of weights are added to those of the micro-batches before";
}

/// Roles stay with the gradient and say its parts.
TEST_F(Backward, PartsOfAProductAreNamedByItsRole) {
  Step s(workload, types, graph);
  s.open("layer", 1);
  s.gemm("scores"_node.as(NodeRole::scores), 5, 7, 3, types.plain, false, 2);
  s.row("mul"_node.as(NodeRole::product), RowwiseKind::add, 5, 7);
  s.close();
  backward(s, Llm{});
  EXPECT_EQ(names(), (std::vector<std::string>{"scores", "mul", "mul", "mul", "scores.dq", "scores.dk"}));
  EXPECT_EQ(graph.nodes[4].role, NodeRole::scores);
  EXPECT_EQ(std::get<Gemm>(graph.nodes[5].op).batch, 2);
}

TEST_F(Backward, LayersThatKeepTheirInputAloneRunForwardAgain) {
  workload.training.recompute = Recompute::full;
  Step s(workload, types, graph);
  s.open("embedding", 1);
  s.add("embedding"_node, Embedding{8, 16});
  s.close();
  s.open("layer", 3);
  s.linear("a"_node, 8, 16, 4);
  s.row("b"_node, RowwiseKind::silu, 8, 16);
  s.close();
  graph.segments.back().layers = true;
  backward(s, Llm{});
  EXPECT_EQ(names(), (std::vector<std::string>{"embedding", "a", "b", "a.recompute", "b.recompute", "b", "a.dx", "a.dw",
                                               "embedding"}));
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) EXPECT_EQ(graph.nodes[i].again, i == 3 || i == 4) << i;
  EXPECT_EQ(graph.nodes[3].count, 3);
  EXPECT_EQ(graph.nodes[3].pass, Pass::backward);
}

TEST_F(Backward, WhatIsNotKeptIsComputedOnceMoreBeforeItsGradients) {
  Step s(workload, types, graph);
  s.open("layer", 1);
  s.row("before"_node, RowwiseKind::silu, 8, 16);
  s.gemm("scores"_node.as(NodeRole::scores), 5, 7, 3, types.plain);
  s.row("softmax"_node, RowwiseKind::softmax, 5, 7);
  s.keep_none_from(1);
  s.row("behind"_node, RowwiseKind::silu, 8, 16);
  s.close();
  backward(s, Llm{});
  EXPECT_EQ(names(), (std::vector<std::string>{"before", "scores", "softmax", "behind", "behind", "scores.recompute",
                                               "softmax.recompute", "softmax", "scores.dq", "scores.dk", "before"}));
}

TEST_F(Backward, OfNothingIsNothing) {
  Step s(workload, types, graph);
  backward(s, Llm{});
  EXPECT_TRUE(graph.nodes.empty());
  EXPECT_TRUE(graph.segments.empty());
}

}  // namespace
}  // namespace plumbline::lowering::lower_backward_test
