// The way of a model to a graph file and back, and graph files that are none.
#include "model/report/graph/graph_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "arch/json_reader.hpp"
#include "ops/llm/llm.hpp"
#include "ops/lower/lower.hpp"
#include "ops/memory/memory.hpp"
#include "ops/table/text.hpp"
#include "tests/support/places.hpp"
#include "tests/support/sampled.hpp"

namespace plumbline::graph_json_test {
namespace {

Workload step(Phase phase, std::int64_t batch, std::int64_t length, Fusion fusion, std::int64_t tensor = 1) {
  Workload w;
  w.phase = phase;
  w.batch = batch;
  w.prompt = w.context = length;
  w.fusion = fusion;
  w.parallel.tensor = tensor;
  return w;
}

/// Every fusion, ranks, contexts that windows and chunks cut, a prompt behind a cache, and training.
std::vector<Workload> steps() {
  std::vector<Workload> all{
      step(Phase::decode, 5, 3000, Fusion::typical),   step(Phase::decode, 1, 9001, Fusion::none),
      step(Phase::decode, 64, 70, Fusion::max, 4),     step(Phase::prefill, 3, 700, Fusion::max),
      step(Phase::prefill, 1, 20000, Fusion::typical), step(Phase::prefill, 2, 513, Fusion::none, 2),
      step(Phase::train, 2, 1024, Fusion::max),        step(Phase::train, 2, 300, Fusion::none)};
  Workload chunk = step(Phase::prefill, 2, 1000, Fusion::typical, 2);
  chunk.cached = 12345;
  chunk.parallel.sequence = true;
  all.push_back(chunk);
  Workload sdpa = step(Phase::prefill, 2, 1000, Fusion::none);
  sdpa.fused_attention = true;
  all.push_back(sdpa);
  Workload apart = step(Phase::decode, 16, 4000, Fusion::typical, 2);
  apart.parallel.attention_data = true;
  apart.parallel.expert = 2;
  all.push_back(apart);
  Workload context = step(Phase::prefill, 2, 4096, Fusion::typical);
  context.parallel.context = 2;
  all.push_back(context);
  context.phase = Phase::decode;
  all.push_back(context);
  Workload staged = step(Phase::decode, 8, 500, Fusion::typical);
  staged.parallel.pipeline = 2;
  all.push_back(staged);
  return all;
}

/// What a step comes to, in words: equal text is an equal step, to the bit.
std::string told(const Llm& llm, const Workload& w) {
  try {
    const Graph g = lower(llm, w);
    std::string text;
    for (const Segment& s : g.segments) text += std::string(s.name) + "*" + std::to_string(s.repeat) + "\n";
    for (const Node& n : g.nodes) {
      text += std::to_string(n.count) + " " + n.name + " " + std::string(op_name(n.op)) + " " +
              std::string(dtype_text(n.op)) + " " + shape_text(n.op) + " " + std::to_string(n.segment) + " " +
              std::to_string(n.stream) + " " + std::to_string(n.depends[0]) + " " + std::to_string(n.depends[1]) + " " +
              std::to_string(static_cast<int>(n.role)) + "\n";
    }
    for (const Bytes b : {g.memory.weights, g.memory.kv_cache, g.memory.activations, g.memory.workspace}) {
      text += std::to_string(b.in(units::B)) + " ";
    }
    for (const std::int64_t repeat : g.pipeline.repeats) text += std::to_string(repeat) + " ";
    return text;
  } catch (const Error& refused) {
    return "refused";
  }
}

/// The first difference, or nothing.
std::string difference(const Llm& before, const Llm& after, std::size_t first, std::size_t each) {
  if (before.params != after.params) return "params";
  if (before.active_params != after.active_params) return "active params";
  if (before.kv_elements_per_token != after.kv_elements_per_token) return "cache of a token";
  if (before.warnings != after.warnings || before.assumptions != after.assumptions) return "sentences";
  const std::vector<Workload> all = steps();
  for (std::size_t i = first % each; i < all.size(); i += each) {
    const std::string a = told(before, all[i]), b = told(after, all[i]);
    if (a != b) return "step " + std::to_string(i) + "\n" + a + "\nbecame\n" + b;
  }
  return "";
}

Llm and_back(const Llm& llm) { return parse_llm(graph_form(llm), "", "graph.json"); }

TEST(GraphForm, EveryShippedModelIsTheSameOnItsWayBack) {
  std::size_t number = 0;  // each model in a third of the steps, in turn
  for (const std::string& name : test::sampled(llm_names())) {
    const Llm llm = load_llm(name);
    EXPECT_EQ(difference(llm, and_back(llm), number++, 3), "") << name;
  }
}

TEST(GraphForm, ScalesOfBlocksComeBack) {
  const Llm llm = load_llm("deepseek-v3");
  EXPECT_EQ(llm.quantization.block, 128);
  EXPECT_EQ(and_back(llm).quantization.block, 128);
  std::string text = graph_form(llm);
  const std::string block = R"("block": 128)";
  ASSERT_NE(text.find(block), std::string::npos);
  text.replace(text.find(block), block.size(), R"("block": 64)");
  EXPECT_THAT([&] { parse_llm(text, "", "graph.json"); },
              testing::ThrowsMessage<BadInput>("graph.json: /quantization/block: expected 0 or 128, found 64"));
  EXPECT_EQ(graph_form(load_llm("llama-3.1-70b-fp8")).find("\"block\""), std::string::npos);
}

/// Blocks that stand for feed-forward parts of the library's, operator by operator of steps without gradients.
TEST(GraphForm, WrittenOutFeedForwardPartsAreTheLibrarys) {
  const auto with = [](const std::string& ffn) {
    return parse_llm(R"({"schema":"plumbline.graph.v1","hidden":2048,"vocab":1000,"stacks":[{"layers":{"a":{"mixer":
        {"use":"gqa","q_heads":16,"kv_heads":4,"qk_dim":128},"ffn":)" +
                         ffn + R"(}},"order":[{"layer":"a","repeat":4}]}]})",
                     "", "graph.json");
  };
  struct Pair {
    const char *library, *block;
  };
  const Pair pairs[] = {
      {R"({"use":"moe","experts":8,"topk":2,"expert_width":1536})",
       R"({"use":"swiglu_moe","experts":8,"topk":2,"expert_width":1536})"},
      {R"({"use":"moe","experts":64,"topk":6,"expert_width":704,"shared_width":1408})",
       R"({"use":"swiglu_moe","experts":64,"topk":6,"expert_width":704,"shared_width":1408})"},
      {R"({"use":"mlp","activation":"gelu","width":8192,"bias":true})", R"({"use":"gelu_mlp","width":8192})"}};
  for (const Pair& pair : pairs) {
    const Llm library = with(pair.library), block = with(pair.block);
    EXPECT_EQ(library.params, block.params) << pair.block;
    EXPECT_EQ(library.active_params, block.active_params) << pair.block;
    for (const Workload& w : steps()) {
      if (w.phase == Phase::train || w.parallel.attention_data || w.parallel.sequence || w.parallel.pipeline > 1)
        continue;
      Graph a = lower(library, w), b = lower(block, w);
      ASSERT_EQ(a.nodes.size(), b.nodes.size()) << pair.block;
      for (std::size_t i = 0; i < a.nodes.size(); ++i) {
        EXPECT_EQ(std::string(a.nodes[i].name), std::string(b.nodes[i].name));
        EXPECT_EQ(shape_text(a.nodes[i].op), shape_text(b.nodes[i].op)) << a.nodes[i].name;
        EXPECT_EQ(a.nodes[i].depends, b.nodes[i].depends) << a.nodes[i].name;
      }
      // The library takes the router as shared by tensor ranks, the block has it whole on each.
      EXPECT_NEAR(a.memory.weights / b.memory.weights, 1, 2e-3) << pair.block;
      EXPECT_EQ(a.memory.activations.in(units::B), b.memory.activations.in(units::B)) << pair.block;
    }
  }
}

/// Parts that no shipped model has: the families of transformers, each in its default configuration.
TEST(GraphForm, FamiliesAreTheSameOnTheirWayBack) {
  const JsonDocument file = JsonDocument::read_file(testing_support::tests_folder() + "/ops/hf_families.json");
  const JsonValue models = file.root().at("models");
  std::size_t same = 0, refused = 0;
  const std::vector<std::string> names = test::sampled(models.keys());
  for (const std::string& name : names) {
    Llm llm;
    try {
      llm = parse_llm(models.at(name).at("config").dump(), "", name);
    } catch (const Error&) {
      ++refused;  // by name: tests of families hold it
      continue;
    }
    EXPECT_EQ(difference(llm, and_back(llm), same, 5), "") << name;
    ++same;
  }
  EXPECT_EQ(same + refused, names.size());
  EXPECT_LE(refused, 11U);
}

TEST(GraphForm, AttentionAndFfnAreWrittenOut) {
  const std::string text = graph_form(load_llm("llama-3.1-8b"));
  EXPECT_NE(text.find("direct*q_width+query_rank+k_width+v_width"), std::string::npos);
  EXPECT_NE(text.find(R"({"use": "swiglu_ffn", "width": 14336})"), std::string::npos);
  // what is edited is what is read: twice as wide a part is twice the weights
  std::string wide = text;
  wide.replace(wide.find("3*hidden*width"), 14, "6*hidden*width");
  const double before = load_llm("llama-3.1-8b").params, after = parse_llm(wide, "", "wide.json").params;
  EXPECT_EQ(after - before, 32.0 * 3 * 4096 * 14336);
}

/// Bytes of a graph file taken out, put in, doubled or exchanged: read, or refused in one line.
TEST(GraphForm, MalformedFilesAreRefusedInOneLine) {
  const std::string whole = graph_form(load_llm("gemma-3-1b"));
  std::mt19937 random(20261123);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const std::string marks = "{}[]\":,0123456789-+*/().eTBCS ";
  int refused = 0;
  for (int i = 0; i < 150; ++i) {
    std::string text = whole;
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
      const std::size_t at = below(text.size()), length = 1 + below(20);
      switch (below(4)) {
        case 0: text.erase(at, length); break;
        case 1: text.insert(at, 1, marks[below(marks.size())]); break;
        case 2: text.insert(at, text.substr(at, length)); break;
        default: text[at] = marks[below(marks.size())];
      }
    }
    try {
      const Llm llm = parse_llm(text, "", "graph.json");
      (void)lower(llm, step(Phase::decode, 2, 100, Fusion::typical));
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(refused, 75);
}

}  // namespace
}  // namespace plumbline::graph_json_test
