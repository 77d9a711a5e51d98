// Blocks: operators with arithmetic for shapes, and what follows from them, counted by hand.
#include "ops/block/block.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/llm/llm.hpp"
#include "ops/lower/lower.hpp"
#include "ops/memory/memory.hpp"
#include "ops/table/text.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/workloads.hpp"

namespace plumbline::block_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::refusal;

/// A model of 3 layers that are `layer`, of width 64, without words and head.
std::string model_of(const std::string& layer, const std::string& more = "") {
  return R"({"schema": "plumbline.graph.v1", "name": "m", "hidden": 64, )" + more +
         R"("stacks": [{"layers": {"one": )" + layer + R"(}, "order": [{"layer": "one", "repeat": 3}]}]})";
}

Llm read(const std::string& text) { return parse_llm(text, "", "m.json"); }

Workload decode(std::int64_t batch, std::int64_t context, std::int64_t tensor = 1) {
  Workload w;
  w.phase = Phase::decode;
  w.batch = batch;
  w.context = context;
  w.parallel.tensor = tensor;
  return w;
}

std::vector<std::string> nodes_of(const Llm& llm, const Workload& w) {
  std::vector<std::string> all;
  for (const Node& node : lower(llm, w).nodes) {
    all.push_back(std::to_string(node.count) + " x " + node.name + " " + std::string(op_name(node.op)) + " " +
                  shape_text(node.op));
  }
  return all;
}

constexpr const char* kTwoProducts = R"j({"ops": [
  {"op": "linear", "name": "up_proj", "in": "hidden", "out": "width", "split": "out"},
  {"op": "gelu", "rows": "T", "cols": "ceil(width/tp)"},
  {"op": "linear", "name": "down_proj", "in": "width", "out": "hidden", "split": "in", "bias": 1},
  {"op": "sum_over_ranks", "name": "all_reduce"}],
  "cache": [{"elements": "2*C", "type": "kv"}, {"elements": "10", "type": "fp32"}]})j";

TEST(Block, BecomesItsOperatorsAndNothingElse) {
  const Llm llm = read(model_of(kTwoProducts, R"("parameters": {"width": "4*hidden"}, )"));
  EXPECT_THAT(nodes_of(llm, decode(8, 100)),
              ElementsAre("3 x up_proj gemm M=8;N=256;K=64", "3 x gelu gelu rows=8;cols=256",
                          "3 x down_proj gemm M=8;N=64;K=256;bias=1", "1 x final_norm rmsnorm rows=8;cols=64"));
}

TEST(Block, RanksShareWhatItSaysTheyDo) {
  const Llm llm = read(model_of(kTwoProducts, R"("parameters": {"width": 256}, )"));
  EXPECT_THAT(nodes_of(llm, decode(8, 100, 4)),
              ElementsAre("3 x up_proj gemm M=8;N=64;K=64", "3 x gelu gelu rows=8;cols=64",
                          "3 x down_proj gemm M=8;N=64;K=64;bias=1", "3 x all_reduce all_reduce bytes=1024;gpus=4",
                          "1 x final_norm rmsnorm rows=8;cols=64"));
  Workload scattered = decode(8, 100, 4);
  scattered.parallel.sequence = true;
  const std::vector<std::string> nodes = nodes_of(llm, scattered);
  EXPECT_THAT(nodes.at(0), HasSubstr("all_gather"));
  EXPECT_THAT(nodes.at(4), HasSubstr("_reduce_scatter reduce_scatter bytes=1024"));
}

TEST(Block, ItsWeightsAreThoseOfItsOperators) {
  const Llm llm = read(model_of(kTwoProducts, R"("parameters": {"width": 256}, )"));
  const double layer = 2 * 64 * 256 + 64;  // two matrices and a bias
  EXPECT_EQ(llm.params, 3 * layer + 64);   // and the last norm
  const double bytes = memory_need(llm, decode(1, 1)).weights.in(units::B);
  EXPECT_EQ(bytes, 2 * llm.params);
  EXPECT_EQ(memory_need(llm, decode(1, 1, 2)).weights.in(units::B), bytes / 2);
}

TEST(Block, KeepsWhatItsCacheSays) {
  const Llm llm = read(model_of(kTwoProducts, R"("parameters": {"width": 256}, )"));
  // 2 elements of 2 bytes for each of 101 tokens, and 10 of 4 bytes, of 5 sequences in 3 layers
  EXPECT_EQ(memory_need(llm, decode(5, 100)).kv_cache.in(units::B), 3 * 5 * (101 * 2 * 2 + 10 * 4));
  EXPECT_EQ(llm.kv_elements_per_token, 3 * 2);
}

/// What is kept may go by the width of the file: it had been taken for 0.
TEST(Block, KeepsBytesByTheFilesWidth) {
  std::string wide = kTwoProducts;
  wide.replace(wide.find("2*C"), 3, "C*hidden");
  const std::string sizes = R"("parameters": {"width": 256}, )";
  const auto kept = [&](const std::string& block) {
    return memory_need(read(model_of(block, sizes)), decode(4, 99)).kv_cache;
  };
  EXPECT_EQ((kept(wide) - kept(kTwoProducts)).in(units::B), 3.0 * 4 * 100 * (64 - 2) * 2);
  EXPECT_EQ(read(model_of(wide, sizes)).kv_elements_per_token, 3.0 * 64);
}

TEST(Block, WeightsThatNoRankSharesAreWholeOnEach) {
  const Llm llm = read(model_of(R"({"ops": [
    {"op": "linear", "name": "shared", "in": 64, "out": 32, "split": "out"},
    {"op": "linear", "name": "whole", "in": 64, "out": 128}]})"));
  EXPECT_EQ(memory_need(llm, decode(1, 1, 2)).weights.in(units::B), 2.0 * (3 * (64 * 128 + 64 * 32 / 2) + 64 / 2));
}

TEST(Block, ARankHasNothingToExchangeWithItself) {
  const Llm llm = read(model_of(R"({"ops": [
    {"op": "linear", "name": "product", "in": 64, "out": 64, "split": "in"},
    {"op": "all_reduce", "name": "sum", "bytes": "T*hidden*2", "gpus": "tp"}]})"));
  EXPECT_EQ(nodes_of(llm, decode(8, 1)).size() + 1, nodes_of(llm, decode(8, 1, 2)).size());
}

TEST(Block, RefusesRanksThatItDoesNotSpeakOf) {
  const Llm llm = read(model_of(R"({"ops": [{"op": "linear", "in": 64, "out": 64}]})"));
  EXPECT_EQ(lower(llm, decode(1, 1)).nodes.size(), 2U);
  EXPECT_THROW(lower(llm, decode(1, 1, 2)), NotModelled);
}

TEST(Block, ExpertsAreCountedOnceAndUsedInPart) {
  const Llm llm = read(model_of(R"({"ops": [
    {"op": "grouped_gemm", "E": 8, "topk": 2, "T": "T", "N": 32, "K": "hidden"}]})"));
  EXPECT_EQ(llm.params - llm.active_params, 3 * 6 * 32 * 64);
  EXPECT_EQ(llm.main().kinds.at(0).expert_params, 8 * 32 * 64);
}

/// A tensor lives until the last operator that waits for it: here 64 and 256 elements a token, beside the input's 64.
TEST(Block, ATensorLivesUntilItIsRead) {
  const std::string wide = R"({"op": "linear", "name": "wide", "in": 64, "out": 256})";
  const std::string narrow = R"({"op": "linear", "name": "narrow", "in": 64, "out": 64})";
  MixerLoad load;
  load.tokens = 10;
  load.hidden = 64;
  load.kv_tokens = load.kv_len = 10;
  const auto live = [&](const std::string& ops) {
    return read(model_of("{\"ops\": [" + ops + "]}")).main().kinds.at(0).mixer->live(load);
  };
  EXPECT_EQ(live(narrow + "," + wide), 10 * (64 + 64 + 256));
  EXPECT_EQ(live(narrow + "," + narrow + "," + narrow), 10 * (64 + 64 + 64));
  const std::string add = R"({"op": "add", "rows": "T", "cols": 64, "after": ["kept", "narrow"]})";
  const std::string kept = R"({"op": "linear", "name": "kept", "in": 64, "out": 64})";
  EXPECT_EQ(live(kept + "," + wide + "," + narrow + "," + add), 10 * (64 + 64 + 256 + 64));
}

TEST(Block, NodesWaitForWhatTheyName) {
  const Graph graph = lower(read(model_of(R"({"ops": [
    {"op": "linear", "name": "a", "in": 64, "out": 64},
    {"op": "linear", "name": "b", "in": 64, "out": 64, "after": "input"},
    {"op": "add", "name": "sum", "rows": "T", "cols": 64, "after": ["a", "b"]}]})")),
                            decode(1, 1));
  EXPECT_EQ(graph.nodes.at(1).depends, graph.nodes.at(0).depends);
  EXPECT_EQ(graph.nodes.at(2).depends, (std::array<int, 2>{0, 1}));
}

TEST(Block, OperatorsAreLeftOutWhereTheyDoNotRun) {
  const Llm llm = read(model_of(R"({"ops": [
    {"op": "linear", "name": "always", "in": 64, "out": 64},
    {"op": "copy", "name": "in_decode", "rows": "T", "cols": 64, "when": "decode"},
    {"op": "copy", "name": "behind", "rows": "T", "cols": 64, "when": "C > 100"}]})"));
  EXPECT_EQ(nodes_of(llm, decode(1, 99)).size(), 3U);
  EXPECT_EQ(nodes_of(llm, decode(1, 100)).size(), 4U);
}

TEST(Block, IsRefusedAtItsPlace) {
  const auto refused = [](const std::string& op) {
    return refusal([&] { read(model_of("{\"ops\": [" + op + "]}")); });
  };
  EXPECT_THAT(refused(R"({"op": "gem", "M": 1})"), HasSubstr("/stacks/0/layers/one/ops/0/op: unknown operator 'gem'"));
  EXPECT_THAT(refused(R"({"op": "gelu", "rows": 1})"), HasSubstr("missing key 'cols'"));
  EXPECT_THAT(refused(R"({"op": "gelu", "rows": "1+", "cols": 2})"), HasSubstr("/rows: expected a number"));
  EXPECT_THAT(refused(R"({"op": "gelu", "rows": "t", "cols": 2})"), HasSubstr("nothing is called 't'"));
  EXPECT_THAT(refused(R"({"op": "linear", "in": 64, "out": 2, "size": 1})"), HasSubstr("unknown key 'size'"));
  EXPECT_THAT(refused(R"({"op": "gelu", "rows": 1, "cols": 2, "after": "x"})"), HasSubstr("an operator before it"));
  EXPECT_THAT(refused(R"({"use": "gqq"})"), HasSubstr("no block is called 'gqq' (did you mean 'gqa'?)"));
  EXPECT_THAT(refused(R"({"use": "kda", "head": 1})"), HasSubstr("unknown size 'head' (did you mean 'heads'?)"));
  EXPECT_THAT(refused(R"({"use": "gqa"})"), HasSubstr("parameter 'q_heads' has no value of its own"));
}

/// A second decoder would be in weights and cache and in no step.
TEST(Block, AStackThatWouldNotRunIsRefused) {
  const auto with = [](const std::string& second) {
    std::string text = model_of(R"({"ops": [{"op": "linear", "in": 64, "out": 64}]})");
    const std::string stack = text.substr(text.find("{\"layers\""), text.rfind(']') - text.find("{\"layers\""));
    return text.insert(text.rfind(']'), ", {\"role\": \"" + second + "\", " + stack.substr(1));
  };
  EXPECT_THAT(refusal([&] { read(with("decoder")); }), HasSubstr("/stacks/1: expected an encoder or a vision stack"));
  EXPECT_THAT(refusal([&] { read(with("diffusion")); }), HasSubstr("would run in no step"));
  EXPECT_EQ(read(with("encoder")).stacks.size(), 2U);
}

TEST(Block, SizesThatAreNoneAreRefusedWhenTheStepIsKnown) {
  const Llm llm = read(model_of(R"({"ops": [{"op": "gelu", "name": "act", "rows": "T", "cols": "C-100"}]})"));
  EXPECT_EQ(nodes_of(llm, decode(1, 200)).size(), 2U);
  EXPECT_THAT(refusal([&] { lower(llm, decode(1, 50)); }),
              HasSubstr("block 'one', operator 'act': key 'cols': expected a whole number from 1 to 2^40, found -49"));
}

TEST(Block, LimitsHold) {
  std::string deep = R"({"op": "gelu", "rows": 1, "cols": 1})";
  std::string blocks;
  for (int i = 0; i < 12; ++i) {
    blocks += (i > 0 ? ", \"b" : "\"b") + std::to_string(i) + "\": {\"ops\": [" +
              (i > 0 ? "{\"use\": \"b" + std::to_string(i - 1) + "\"}" : deep) + "]}";
  }
  const auto used = [&](const std::string& name) {
    return refusal(
        [&] { read(model_of("{\"mixer\": {\"use\": \"" + name + "\"}}", "\"blocks\": {" + blocks + "}, ")); });
  };
  EXPECT_EQ(used("b6"), "(accepted)");
  EXPECT_THAT(used("b11"), HasSubstr("at most 8 blocks inside one another"));
  EXPECT_THAT(
      refusal([] { read(model_of(R"({"mixer": {"use": "me"}})", R"("blocks": {"me": {"ops": [{"use": "me"}]}}, )")); }),
      HasSubstr("at most 8 blocks inside one another"));
  EXPECT_THAT(refusal([] { read(model_of(kTwoProducts, R"("parameters": {"a": "b", "b": "a", "width": 1}, )")); }),
              HasSubstr("in a circle"));
}

}  // namespace
}  // namespace plumbline::block_test
