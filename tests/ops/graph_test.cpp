// Nodes replaced by one, nodes put in by hand, and what is no graph (ops/graph/graph.hpp).
#include "ops/graph/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "arch/error.hpp"

namespace plumbline::graph_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Op kCopy = Rowwise{RowwiseKind::copy, 8, 8};

/// begin | a b c (three times) | b end; each waits for the one before it, `end` for `a` too.
Graph small() {
  Graph g;
  int i = 0;
  const auto add = [&](const char* name, int segment, std::int64_t count) {
    Node node;
    node.name = name;
    node.op = Rowwise{RowwiseKind::silu, 8, 8};
    node.count = count;
    node.segment = segment;
    node.depends = {i - 1, -1};
    g.nodes.push_back(node);
    ++i;
  };
  add("begin", 0, 1);
  for (const char* name : {"a", "b", "c"}) add(name, 1, 3);
  for (const char* name : {"b", "end"}) add(name, 2, 1);
  g.nodes.back().depends[1] = 1;
  g.segments = {{"first", 1, 0, 1}, {"layer", 3, 1, 3}, {"last", 1, 4, 2}};
  return g;
}

std::vector<std::string> names(const Graph& g) {
  std::vector<std::string> out;
  for (const Node& node : g.nodes) out.emplace_back(node.name);
  return out;
}

std::string refusal(void (*act)(Graph&)) {
  Graph g = small();
  try {
    act(g);
  } catch (const BadInput& e) {
    return e.what();
  }
  return "(accepted)";
}

TEST(Graph, OneNodeStandsForSeveral) {
  Graph g = small();
  replace_nodes(g, "a", "b", "ab", kCopy);
  check(g);
  EXPECT_THAT(names(g), ElementsAre("begin", "ab", "c", "b", "end"));
  EXPECT_EQ(g.nodes[1].op, kCopy);
  EXPECT_EQ(g.nodes[1].count, 3);
  EXPECT_EQ(g.nodes[1].depends[0], 0);
  EXPECT_EQ(g.nodes[2].depends[0], 1);
  EXPECT_EQ(g.nodes[4].depends, (std::array<int, 2>{3, 1}));
  EXPECT_EQ(g.segments[1].size, 2);
  EXPECT_EQ(g.segments[2].first, 3);
}

TEST(Graph, ANodeIsReplacedInEverySegmentThatHasIt) {
  Graph g = small();
  replace_nodes(g, "b", "b", "mine", kCopy);
  check(g);
  EXPECT_THAT(names(g), ElementsAre("begin", "a", "mine", "c", "mine", "end"));
  EXPECT_EQ(g.nodes[2].count, 3);
  EXPECT_EQ(g.nodes[4].count, 1);
}

TEST(Graph, ANodePutInIsWaitedForInsteadOfTheOneBefore) {
  Graph g = small();
  insert_after(g, "b", "mine", kCopy);
  check(g);
  EXPECT_THAT(names(g), ElementsAre("begin", "a", "b", "mine", "c", "b", "mine", "end"));
  EXPECT_EQ(g.nodes[3].depends[0], 2);
  EXPECT_EQ(g.nodes[4].depends[0], 3);
  EXPECT_EQ(g.nodes[7].depends, (std::array<int, 2>{6, 1}));
  EXPECT_EQ(g.segments[1].size, 4);
  EXPECT_EQ(g.segments[2].first, 5);
  EXPECT_EQ(g.segments[2].size, 3);
}

TEST(Graph, NamesThatAreNotThereAreRefusedWithTheNearest) {
  EXPECT_EQ(refusal([](Graph& g) { replace_nodes(g, "begun", "c", "x", kCopy); }),
            "graph: no node 'begun' (did you mean 'begin'?)");
  EXPECT_THAT(refusal([](Graph& g) { insert_after(g, "ends", "x", kCopy); }), HasSubstr("did you mean 'end'?"));
  EXPECT_EQ(refusal([](Graph& g) { replace_nodes(g, "c", "a", "x", kCopy); }),
            "graph: no segment has 'c' and behind it 'a'");
}

TEST(Graph, WhatIsNoGraphIsRefused) {
  EXPECT_THAT(refusal([](Graph& g) { g = Graph{}, check(g); }), HasSubstr("a node at least"));
  EXPECT_THAT(refusal([](Graph& g) { g.nodes[2].count = 0, check(g); }),
              HasSubstr("node 'b': expected a count from 1"));
  EXPECT_THAT(refusal([](Graph& g) { g.nodes[2].segment = 7, check(g); }), HasSubstr("node 'b'"));
  EXPECT_THAT(refusal([](Graph& g) { g.segments[1].repeat = 0, check(g); }), HasSubstr("segment 'layer'"));
  EXPECT_THAT(refusal([](Graph& g) { g.segments.pop_back(), check(g); }), HasSubstr("6 nodes in all, found 4"));
  EXPECT_THAT(refusal([](Graph& g) { g.segments[2].size = 9, check(g); }), HasSubstr("6 nodes in all, found 13"));
}

}  // namespace
}  // namespace plumbline::graph_test
