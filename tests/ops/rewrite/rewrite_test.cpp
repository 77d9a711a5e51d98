// Launches in place of nodes: what they are, what they wait for, and whom rules are for.
#include "ops/rewrite/rewrite.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "arch/error.hpp"
#include "ops/table/text.hpp"
#include "tests/support/workloads.hpp"

namespace plumbline::rewrite_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::decode;
using testing_support::prefill;

/// begin | a b (three times) | end; each waits for the one before it, `end` for `a` too.
Graph small() {
  Graph g;
  const auto add = [&](const char* name, int segment, std::int64_t count, const Op& op) {
    Node node;
    node.name = name;
    node.op = op;
    node.count = count;
    node.segment = segment;
    node.depends = {static_cast<int>(g.nodes.size()) - 1, -1};
    g.nodes.push_back(node);
  };
  add("begin", 0, 1, Embedding{8, 64});
  add("a", 1, 3, Rowwise{RowwiseKind::rmsnorm, 8, 64});
  add("b", 1, 3, Rowwise{RowwiseKind::silu, 8, 64});
  add("end", 2, 1, Rowwise{RowwiseKind::rmsnorm, 8, 64});
  g.nodes.back().depends[1] = 1;
  g.segments = {{"first", 1, 0, 1}, {"layer", 3, 1, 2}, {"last", 1, 3, 1}};
  return g;
}

LaunchRule launch(const std::string& name, const char* of, const std::vector<std::pair<std::string, std::string>>& keys,
                  const char* op = "copy") {
  LaunchRule rule;
  rule.name = name;
  rule.op = find_operator(op);
  const std::vector<std::string> names = expression_names(of);
  for (const auto& [key, text] : keys) {
    for (const Key& each : rule.op->keys) {
      if (each.name == key) rule.keys.push_back({&each, Expression(text, names)});
    }
  }
  return rule;
}

NodeRule two_launches() {
  NodeRule rule;
  rule.op = "rmsnorm";
  rule.launches = {launch("square", "rmsnorm", {{"rows", "rows"}, {"cols", "cols*2"}}),
                   launch("rest", "rmsnorm", {{"rows", "rows*batch"}, {"cols", "cached+fresh*w"}})};
  return rule;
}

std::vector<std::string> texts(const Graph& g) {
  std::vector<std::string> out;
  for (const Node& node : g.nodes) out.push_back(std::string(node.name) + " " + shape_text(node.op));
  return out;
}

TEST(Rewrite, LaunchesStandForANode) {
  Graph g = small();
  rewrite(g, {{two_launches()}}, decode(5, 100), "llama");
  check(g);
  EXPECT_THAT(texts(g), ElementsAre("begin rows=8;cols=64", "a.square rows=8;cols=128", "a.rest rows=40;cols=102",
                                    "b rows=8;cols=64", "end.square rows=8;cols=128", "end.rest rows=40;cols=102"));
  EXPECT_EQ(g.nodes[1].count, 3);
  EXPECT_EQ(g.nodes[5].count, 1);
  EXPECT_EQ(g.nodes[2].segment, 1);
  EXPECT_TRUE(g.nodes[1].launch);
  EXPECT_FALSE(g.nodes[0].launch);
  // whoever waited for the node waits for its last launch; launches wait for each other
  EXPECT_THAT(g.nodes[1].depends, ElementsAre(0, -1));
  EXPECT_THAT(g.nodes[2].depends, ElementsAre(1, -1));
  EXPECT_THAT(g.nodes[3].depends, ElementsAre(2, -1));
  EXPECT_THAT(g.nodes[4].depends, ElementsAre(3, 2));
  EXPECT_EQ(g.segments[1].size, 3);
  EXPECT_EQ(g.segments[2].first, 4);
}

TEST(Rewrite, PrefillCountsItsTokens) {
  Graph g = small();
  Workload w = prefill(2, 30);
  w.cached = 7;
  rewrite(g, {{two_launches()}}, w, "llama");
  EXPECT_EQ(texts(g)[2], "a.rest rows=16;cols=67");
}

/// A product has a `batch` of its own; the step's sequences are `seqs` for any operator.
TEST(Rewrite, SequencesAreToldFromAnOperatorsOwnBatch) {
  const std::vector<std::string> names = expression_names("gemm");
  Gemm product;
  product.m = 2;
  product.n = 3;
  product.k = 5;
  product.batch = 7;
  Graph g;
  Node node;
  node.name = "scores";
  node.op = product;
  g.nodes = {node};
  g.segments = {{"layer", 1, 0, 1}};
  NodeRule rule;
  rule.op = "gemm";
  LaunchRule launch;
  launch.name = "copy";
  launch.op = find_operator("copy");
  for (const Key& key : launch.op->keys) {
    if (key.name == "rows") launch.keys.push_back({&key, Expression("batch", names)});
    if (key.name == "cols") launch.keys.push_back({&key, Expression("seqs", names)});
  }
  rule.launches = {launch};
  rewrite(g, {{rule}}, decode(11, 1), "llama");
  EXPECT_EQ(texts(g)[0], "scores.copy rows=7;cols=11");
}

/// Launches of a product in 8 bits are in 8 bits, with K innermost.
TEST(Rewrite, PartsOfAProductKeepItsTypes) {
  Gemm product;
  product.m = 16;
  product.n = 48;
  product.k = 32;
  product.precision = *parse_precision("fp8");
  Graph g;
  Node node;
  node.name = "qkv";
  node.op = product;
  g.nodes = {node};
  g.segments = {{"layer", 1, 0, 1}};
  NodeRule rule;
  rule.op = "gemm";
  rule.launches = {launch("part", "gemm", {{"M", "M"}, {"N", "N/3"}, {"K", "K"}, {"layout", "1"}}, "gemm")};
  rewrite(g, {{rule}}, decode(1, 1), "llama");
  const auto& part = std::get<Gemm>(g.nodes[0].op);
  EXPECT_EQ(part.n, 16);
  EXPECT_EQ(part.precision, product.precision);
  EXPECT_EQ(part.layout, WeightLayout::nk);
}

TEST(Rewrite, ANodeMayBeGone) {
  Graph g = small();
  NodeRule none;
  none.op = "rmsnorm";
  none.nodes = {"a"};
  rewrite(g, {{none}}, decode(1, 1), "llama");
  check(g);
  EXPECT_THAT(texts(g), ElementsAre("begin rows=8;cols=64", "b rows=8;cols=64", "end rows=8;cols=64"));
  EXPECT_THAT(g.nodes[1].depends, ElementsAre(0, -1));
  EXPECT_THAT(g.nodes[2].depends, ElementsAre(1, 0));
}

TEST(Rewrite, ALaunchMayBeTheOperatorAsItIs) {
  Graph g = small();
  NodeRule rule;
  rule.op = "silu";
  LaunchRule itself;
  itself.name = "itself";
  rule.launches = {launch("clear", "silu", {{"rows", "1"}, {"cols", "1"}}), itself};
  rewrite(g, {{rule}}, decode(1, 1), "llama");
  EXPECT_EQ(texts(g)[2], "b.clear rows=1;cols=1");
  EXPECT_EQ(texts(g)[3], "b.itself rows=8;cols=64");
  EXPECT_EQ(op_name(g.nodes[3].op), "silu");
}

TEST(Rewrite, RulesAreForWhomTheySay) {
  NodeRule rule = two_launches();
  rule.model_types = {"gemma"};
  Graph g = small();
  rewrite(g, {{rule}}, decode(1, 1), "llama");
  EXPECT_EQ(g.nodes.size(), 4U);
  rewrite(g, {{rule}}, decode(1, 1), "gemma");
  EXPECT_EQ(g.nodes.size(), 6U);
  g = small();
  rule.in_decode = false;
  rewrite(g, {{rule}}, decode(1, 1), "gemma");
  EXPECT_EQ(g.nodes.size(), 4U);
  rewrite(g, {{rule}}, prefill(1, 1), "gemma");
  EXPECT_EQ(g.nodes.size(), 6U);
}

TEST(Rewrite, RulesAreForActivationsThatTheySay) {
  NodeRule rule = two_launches();
  rule.activations = {"gelu_new"};
  Vocabulary model;
  model.activation = "gelu";
  Graph g = small();
  rewrite(g, {{rule}}, decode(1, 1), "gpt2", model);
  EXPECT_EQ(g.nodes.size(), 4U);
  model.activation = "gelu_new";
  rewrite(g, {{rule}}, decode(1, 1), "gpt2", model);
  EXPECT_EQ(g.nodes.size(), 6U);
}

/// a | in backward: b again, the two nodes of a's gradient, b's | update
TEST(Rewrite, ARuleOfTheBackwardPassStandsForAWholeGradient) {
  Graph g;
  const auto add = [&](const char* name, Pass pass, int of, bool again, const Op& op) {
    Node node;
    node.name = name;
    node.op = op;
    node.pass = pass;
    node.of = of;
    node.again = again;
    node.count = 3;
    node.depends = {static_cast<int>(g.nodes.size()) - 1, -1};
    g.nodes.push_back(node);
  };
  const Rowwise norm{RowwiseKind::rmsnorm, 8, 64}, silu{RowwiseKind::silu, 8, 64}, sum{RowwiseKind::add, 8, 64};
  add("a", Pass::forward, -1, false, norm);
  add("b", Pass::forward, -1, false, silu);
  add("b.recompute", Pass::backward, 1, true, silu);
  add("b", Pass::backward, 1, false, sum);
  add("a.dx", Pass::backward, 0, false, sum);
  add("a.dw", Pass::backward, 0, false, sum);
  add("adamw", Pass::update, -1, false, Rowwise{RowwiseKind::adamw, 16, 64});
  g.segments = {{"all", 3, 0, 7}};
  NodeRule forward, back, update;
  forward.op = back.op = "rmsnorm";
  forward.op = "silu";
  forward.nodes = {"b"};  // what is computed again has another name
  forward.launches = {launch("once", "silu", {{"rows", "rows"}, {"cols", "1"}})};
  back.pass = Pass::backward;
  back.launches = {launch("left", "rmsnorm", {{"rows", "rows"}, {"cols", "cols*p"}}),
                   launch("right", "rmsnorm", {{"rows", "vocab*tied"}, {"cols", "1+adds"}})};
  update.op = "adamw";
  update.pass = Pass::update;
  update.launches = {launch("list", "adamw", {{"rows", "1"}, {"cols", "rows*cols"}})};
  Workload w = prefill(1, 8);
  w.phase = Phase::train;
  w.training.gradient = DType::fp32;
  rewrite(g, {{forward, back, update}}, w, "llama", {100, true});
  check(g);
  EXPECT_THAT(texts(g), ElementsAre("a rows=8;cols=64", "b.once rows=8;cols=1", "b.recompute.once rows=8;cols=1",
                                    "b rows=8;cols=64", "a.d_left rows=8;cols=256", "a.d_right rows=100;cols=1",
                                    "adamw.list rows=1;cols=1024"));
  EXPECT_THAT(g.nodes[4].depends, ElementsAre(3, -1));
  EXPECT_THAT(g.nodes[6].depends, ElementsAre(5, -1));
  EXPECT_EQ(g.nodes[5].count, 3);
}

TEST(Rewrite, NamesLiveAsLongAsTheGraphAndItsCopies) {
  Graph copy;
  {
    Graph g = small();
    rewrite(g, {{two_launches()}}, decode(1, 1), "llama");
    copy = g;
    g.nodes[1].name = "begin";
    rewrite(copy, {{two_launches()}}, decode(1, 1), "llama");
  }
  EXPECT_STREQ(copy.nodes[1].name, "a.square");
}

TEST(Rewrite, RefusesWhatAnOperatorDoesNotTake) {
  Graph g = small();
  NodeRule rule;
  rule.op = "silu";
  rule.launches = {launch("none", "silu", {{"rows", "rows-8"}, {"cols", "cols"}})};
  try {
    rewrite(g, {{rule}}, decode(1, 1), "llama");
    FAIL();
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), HasSubstr("rows"));
  }
  Graph again = small();
  rule.launches = {launch("infinite", "silu", {{"rows", "rows/0"}, {"cols", "cols"}})};
  EXPECT_THROW(rewrite(again, {{rule}}, decode(1, 1), "llama"), BadInput);
}

}  // namespace
}  // namespace plumbline::rewrite_test
