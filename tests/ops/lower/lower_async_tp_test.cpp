// Products on one rank's tokens at a time, beside copies of the next rank's: which nodes stand for what, who waits for whom,
// what is left as it was, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "arch/error.hpp"
#include "ops/facts/work.hpp"
#include "ops/llm/llm.hpp"
#include "ops/lower/lower.hpp"
#include "ops/lower/two_batch.hpp"
#include "tests/support/workloads.hpp"

namespace plumbline::lower_async_tp_test {
namespace {

using testing::HasSubstr;
using testing_support::decode;
using testing_support::prefill;

Workload in_turns(Workload w, std::int64_t tensor) {
  w.parallel.tensor = tensor;
  w.parallel.sequence = true;
  w.overlap = Overlap::async_tp;
  return w;
}

Graph lowered(const char* model, const Workload& w) { return lower(load_llm(model), w); }

/// Nodes of the first kind of layer.
std::vector<Node> layer_of(const Graph& graph) {
  for (const Segment& segment : graph.segments) {
    if (!segment.layers) continue;
    const auto first = graph.nodes.begin() + segment.first;
    return {first, first + segment.size};
  }
  return {};
}

std::vector<std::string> names_of(const std::vector<Node>& nodes) {
  std::vector<std::string> names;
  for (const Node& node : nodes) names.push_back((node.stream == 0 ? "" : "beside:") + std::string(node.name));
  return names;
}

TEST(AsyncTp, ProductsAndCopiesTakeTurns) {
  const Graph graph = lowered("llama-3.1-8b", in_turns(prefill(1, 3000), 2));
  EXPECT_TRUE(graph.side_by_side);
  const std::vector<Node> layer = layer_of(graph);
  EXPECT_THAT(
      names_of(layer),
      testing::ElementsAre("attn_norm", "shard_staging", "shard_barrier", "qkv_proj", "beside:shard_copy", "qkv_proj",
                           "shard_barrier", "rope", "attention",                                    // in front
                           "shard_barrier", "o_proj", "beside:shard_barrier", "beside:shard_copy",  // behind
                           "beside:shard_barrier", "o_proj", "shard_barrier", "shard_sum", "ffn_norm", "shard_staging",
                           "shard_barrier", "gate_up_proj", "beside:shard_copy", "gate_up_proj", "shard_barrier",
                           "ffn_act", "shard_barrier", "down_proj", "beside:shard_barrier", "beside:shard_copy",
                           "beside:shard_barrier", "down_proj", "shard_barrier", "shard_sum"));
  EXPECT_EQ(std::get<Gemm>(layer[3].op).m, 1500);
  EXPECT_EQ(std::get<Transfer>(layer[4].op).bytes, 1500 * 4096 * 2);
  EXPECT_EQ(std::get<AttentionPrefill>(layer[8].op).q_len, 3000);
  const auto& sum = std::get<CustomOp>(layer[16].op);
  EXPECT_EQ(sum.read.in(units::B), 2 * 1500 * 4096 * 2);
  EXPECT_EQ(sum.write.in(units::B), 1500 * 4096 * 2);
}

/// A product waits for its copy, a copy for the product before last.
TEST(AsyncTp, TwoBuffersTakeTurns) {
  const Graph graph = lowered("llama-3.1-8b", in_turns(prefill(4, 1024), 8));
  std::vector<int> products, copies;
  for (int i = 0, barriers = 0; i < static_cast<int>(graph.nodes.size()) && barriers < 2; ++i) {
    const Node& node = graph.nodes[static_cast<std::size_t>(i)];
    const std::string_view name = node.name;
    if (name == "shard_barrier") ++barriers;
    if (name == "qkv_proj") products.push_back(i);
    if (name == "shard_copy") copies.push_back(i);
  }
  ASSERT_EQ(products.size(), 8U);
  ASSERT_EQ(copies.size(), 7U);
  for (std::size_t step = 1; step < 8; ++step) {
    const auto& copy = graph.nodes[static_cast<std::size_t>(copies[step - 1])];
    EXPECT_EQ(graph.nodes[static_cast<std::size_t>(products[step])].depends[0], copies[step - 1]);
    EXPECT_EQ(copy.depends[1], step < 2 ? -1 : products[step - 2]);
    EXPECT_EQ(copy.stream, 1);
  }
}

/// Behind a product its part leaves one of two buffers: the next but one waits until it is gone. The rank's own comes last.
TEST(AsyncTp, PartsLeaveTwoBuffersInTurns) {
  const Graph graph = lowered("llama-3.1-8b", in_turns(prefill(4, 1024), 8));
  std::vector<int> products, gone;
  for (int i = 0; i < static_cast<int>(graph.nodes.size()) && products.size() < 8; ++i) {
    const Node& node = graph.nodes[static_cast<std::size_t>(i)];
    const std::string_view name = node.name;
    if (name == "o_proj") products.push_back(i);
    const bool copied =
        std::string_view(graph.nodes[static_cast<std::size_t>(std::max(0, i - 1))].name) == "shard_copy";
    if (name == "shard_barrier" && node.stream == 1 && copied) gone.push_back(i);
  }
  ASSERT_EQ(products.size(), 8U);
  ASSERT_EQ(gone.size(), 7U);
  for (std::size_t step = 1; step < 8; ++step) {
    const auto& product = graph.nodes[static_cast<std::size_t>(products[step - 1])];
    EXPECT_EQ(product.depends[1], step < 3 ? -1 : gone[step - 3]);
  }
  EXPECT_EQ(graph.nodes[static_cast<std::size_t>(products[7])].depends[1], gone[5]) << "behind every other one's";
}

TEST(AsyncTp, WhatIsQuantizedIsSoByShares) {
  Workload w = in_turns(prefill(1, 4096), 4);
  w.precision_given = true;
  w.precision = *parse_precision("fp8");
  const std::vector<Node> layer = layer_of(lowered("llama-3.1-8b", w));
  int shares = 0;
  for (std::size_t i = 0; i + 1 < layer.size(); ++i) {
    if (std::string_view(layer[i].name) != "qkv_quantize") continue;
    EXPECT_EQ(std::get<Rowwise>(layer[i].op).rows, 1024);
    EXPECT_STREQ(layer[i + 1].name, "qkv_proj");
    ++shares;
  }
  EXPECT_EQ(shares, 4);
}

/// Experts and their router read what is gathered for them.
TEST(AsyncTp, LeavesWhatItCannotCut) {
  const std::vector<std::string> experts = names_of(layer_of(lowered("mixtral-8x7b", in_turns(prefill(1, 4096), 4))));
  EXPECT_THAT(experts, testing::Contains("beside:moe_all_gather"));
  EXPECT_THAT(experts, testing::Contains("shard_sum")) << "behind attention";
}

/// Beside the same plan without it: tensor work of whole shares, as much over the links but for rounding, the rest as it was.
RC_GTEST_PROP(AsyncTp, DoesTheWorkOfThePlanWithoutIt, ()) {
  const auto model = *rc::gen::element("llama-3.1-8b", "qwen2.5-7b", "gemma-2-9b", "deepseek-v3", "jamba-1.5-mini");
  const std::int64_t tensor = *rc::gen::element(2, 4);
  Workload w = in_turns(prefill(*rc::gen::inRange(1, 5), *rc::gen::inRange(8, 3000)), tensor);
  const Graph cut = lowered(model, w);
  w.overlap = Overlap::none;
  const Graph whole = lowered(model, w);
  const auto sums = [](const Graph& graph) {
    Work all;
    for (const Node& node : graph.nodes) {
      const Work each = work(node.op);
      const auto count = static_cast<double>(node.count);
      all.tensor += count * each.tensor;
      all.link += count * each.link;
    }
    return all;
  };
  const Work of_cut = sums(cut), of_whole = sums(whole);
  const double rows = static_cast<double>(w.batch * w.prompt), rounding = static_cast<double>(tensor) / rows;
  RC_ASSERT(of_cut.tensor >= of_whole.tensor * (1 - 1e-12));
  RC_ASSERT(of_cut.tensor <= of_whole.tensor * (1 + rounding));
  RC_ASSERT(of_cut.link >= of_whole.link * (1 - 1e-12));
  RC_ASSERT(of_cut.link <= of_whole.link * (1 + 2 * rounding));
  RC_ASSERT(cut.segments.size() == whole.segments.size());
  check(cut);
}

TEST(AsyncTp, IsRefusedWhereTokensAreNotSplit) {
  const auto refusal_of = [](const Workload& w, const char* model = "llama-3.1-8b") -> std::string {
    try {
      lower(load_llm(model), w);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  Workload w = in_turns(prefill(1, 4096), 4);
  w.parallel.sequence = false;
  EXPECT_THAT(refusal_of(w), HasSubstr("overlap async-tp: expected tokens that are split over the tensor ranks"));
  EXPECT_EQ(lowering::possible_overlap(Overlap::async_tp, load_llm("llama-3.1-8b"), w), Overlap::none);
  w.parallel.sequence = true;
  EXPECT_EQ(lowering::possible_overlap(Overlap::async_tp, load_llm("llama-3.1-8b"), w), Overlap::async_tp);
  EXPECT_EQ(lowering::possible_overlap(Overlap::full, load_llm("llama-3.1-8b"), w), Overlap::two_batch);
  EXPECT_THAT(refusal_of(in_turns(prefill(1, 128), 2), "bert-base-uncased"),
              HasSubstr("a decoder's prefill and decode"));
  // one token: no halves
  Workload one = in_turns(decode(1, 100), 4);
  EXPECT_EQ(lowering::possible_overlap(Overlap::full, load_llm("llama-3.1-8b"), one), Overlap::async_tp);
}

}  // namespace
}  // namespace plumbline::lower_async_tp_test
