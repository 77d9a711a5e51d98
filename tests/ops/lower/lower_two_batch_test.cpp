// Two halves of a batch in turns: what they are, in which order they are launched, who waits for whom; what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "ops/facts/work.hpp"
#include "ops/llm/llm.hpp"
#include "ops/lower/lower.hpp"
#include "ops/lower/two_batch.hpp"
#include "tests/support/workloads.hpp"

namespace plumbline::lower_two_batch_test {
namespace {

using testing::HasSubstr;
using testing_support::decode;
using testing_support::prefill;

Workload halved(Workload w, std::int64_t tensor) {
  w.parallel.tensor = tensor;
  w.overlap = Overlap::two_batch;
  return w;
}

/// "a:attn_norm", halves in letters, of the first segment of layers.
std::vector<std::string> launched(const Graph& graph) {
  std::vector<std::string> names;
  for (const Segment& segment : graph.segments) {
    if (segment.repeat == 1) continue;
    for (int i = segment.first; i < segment.first + segment.size; ++i) {
      const Node& node = graph.nodes[static_cast<std::size_t>(i)];
      names.push_back((node.half == 0 ? "a:" : "b:") + std::string(node.name));
    }
    break;
  }
  return names;
}

TEST(TwoBatch, HalvesTakeTurnsAtTheirExchanges) {
  const Graph graph = lower(load_llm("llama-3.1-8b"), halved(decode(5, 100), 2));
  EXPECT_TRUE(graph.side_by_side);
  EXPECT_THAT(
      launched(graph),
      testing::ElementsAre("a:attn_norm", "a:qkv_proj", "a:rope", "a:attention", "a:o_proj", "a:attn_all_reduce",
                           "b:attn_norm", "b:qkv_proj", "b:rope", "b:attention", "b:o_proj", "b:attn_all_reduce",
                           "a:ffn_norm", "a:gate_up_proj", "a:ffn_act", "a:down_proj", "a:ffn_all_reduce", "b:ffn_norm",
                           "b:gate_up_proj", "b:ffn_act", "b:down_proj", "b:ffn_all_reduce"));
  for (const Node& node : graph.nodes) {
    const auto* attention = std::get_if<AttentionDecode>(&node.op);
    if (attention == nullptr) continue;
    EXPECT_EQ(attention->batch, node.half == 0 ? 3 : 2);
  }
}

TEST(TwoBatch, EachHalfWaitsForItself) {
  const Graph graph = lower(load_llm("deepseek-v3"), [] {
    Workload w = halved(decode(64, 1000), 8);
    w.parallel.expert = 8;
    w.parallel.attention_data = true;
    return w;
  }());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const int other : node.depends) {
      ASSERT_LT(other, static_cast<int>(i));
      if (other < 0) continue;
      const Node& before = graph.nodes[static_cast<std::size_t>(other)];
      if (before.segment != node.segment) continue;
      EXPECT_EQ(before.half, node.half) << node.name;
    }
  }
  // what comes behind the layers waits for both
  const Segment& head = graph.segments.back();
  const Node& first = graph.nodes[static_cast<std::size_t>(head.first)];
  EXPECT_NE(graph.nodes[static_cast<std::size_t>(first.depends[0])].half,
            graph.nodes[static_cast<std::size_t>(first.depends[1])].half);
}

TEST(TwoBatch, WorkIsThatOfTheWholeBatch) {
  const Llm llm = load_llm("llama-3.1-8b");
  for (const std::int64_t batch : {2, 7}) {
    Workload w = prefill(batch, 256);
    w.parallel.tensor = 2;
    Flops whole, halves;
    for (const Node& node : lower(llm, w).nodes) whole += static_cast<double>(node.count) * work(node.op).tensor;
    w.overlap = Overlap::two_batch;
    for (const Node& node : lower(llm, w).nodes) halves += static_cast<double>(node.count) * work(node.op).tensor;
    EXPECT_DOUBLE_EQ(halves / whole, 1);
  }
}

TEST(TwoBatch, ASinglePromptIsCutIntoChunks) {
  const Graph graph = lower(load_llm("llama-3.1-8b"), halved(prefill(1, 1001), 2));
  std::vector<std::pair<std::int64_t, std::int64_t>> chunks;
  for (const Node& node : graph.nodes) {
    const auto* a = std::get_if<AttentionPrefill>(&node.op);
    if (a != nullptr) chunks.emplace_back(a->q_len, a->kv_len);
  }
  EXPECT_THAT(chunks, testing::ElementsAre(std::pair{501, 501}, std::pair{500, 1001}));
}

std::string refused(const char* model, const Workload& w) {
  try {
    lower(load_llm(model), w);
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}

TEST(TwoBatch, IsRefusedWhereItMeansNothing) {
  EXPECT_THAT(refused("llama-3.1-8b", halved(decode(8, 100), 1)), HasSubstr("expected ranks that exchange data"));
  EXPECT_THAT(refused("llama-3.1-8b", halved(decode(1, 100), 2)), HasSubstr("expected two sequences"));
  Workload own = halved(decode(8, 100), 8);
  own.parallel.attention_data = true;
  EXPECT_THAT(refused("llama-3.1-8b", own), HasSubstr("expected two sequences")) << "each rank has one of its own";
  EXPECT_THAT(refused("bert-large-uncased", halved(prefill(8, 100), 2)), HasSubstr("modelled of a decoder"));
  Workload staged = decode(8, 100);
  staged.overlap = Overlap::sends;
  EXPECT_THAT(refused("llama-3.1-8b", staged), HasSubstr("expected a pipeline of two stages"));
  staged.parallel.pipeline = 2;
  EXPECT_EQ(refused("llama-3.1-8b", staged), "nothing");
  EXPECT_EQ(lowering::possible_overlap(Overlap::full, load_llm("llama-3.1-8b"), staged), Overlap::sends);
  staged.batch = 1;
  EXPECT_THAT(refused("llama-3.1-8b", staged), HasSubstr("expected two micro-batches"));
  EXPECT_EQ(lowering::possible_overlap(Overlap::two_batch, load_llm("llama-3.1-8b"), decode(8, 100)), Overlap::none);
}

}  // namespace
}  // namespace plumbline::lower_two_batch_test
