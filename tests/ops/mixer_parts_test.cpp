// What several mixers share: the core of attention, its memory, the indexer, states of recurrences, by hand.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "arch/error.hpp"
#include "ops/mixer/attention_core.hpp"
#include "ops/mixer/attention_memory.hpp"
#include "ops/mixer/indexer.hpp"
#include "ops/mixer/recurrent.hpp"

namespace plumbline::mixer_parts_test {
namespace {

using lowering::Core;
using lowering::Step;

class Parts : public ::testing::Test {
 protected:
  Step begin(bool decode, Fusion fusion = Fusion::typical) {
    workload.fusion = fusion;
    graph = Graph{};
    Step s(workload, lowering::Types{}, graph);
    s.hidden = 64;
    s.batch = 2;
    s.decode = decode;
    s.q_len = decode ? 1 : 10;
    s.kv_len = 10;
    s.tokens = s.batch * s.q_len;
    s.open("layer", 1);
    return s;
  }
  template <class Shape>
  const Shape& node(std::size_t i) const {
    return std::get<Shape>(graph.nodes.at(i).op);
  }
  Workload workload;
  Graph graph;
};

TEST_F(Parts, AChunkIsASequenceOfItsOwnAndTheRestAShorterOne) {
  Step s = begin(false);
  Core c{4, 2, 8, 8, 10, 10};
  c.window = 4;
  c.chunked = true;
  attention_core(s, c);
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(node<AttentionPrefill>(0).batch, 2 * 2);
  EXPECT_EQ(node<AttentionPrefill>(0).q_len, 4);
  EXPECT_EQ(node<AttentionPrefill>(0).window, 0);
  EXPECT_EQ(node<AttentionPrefill>(1).batch, 2);
  EXPECT_EQ(node<AttentionPrefill>(1).kv_len, 2);
}

TEST_F(Parts, ASlidingWindowIsTheKernelsAndOneWiderThanTheKeysIsNone) {
  for (const std::int64_t window : {4, 10}) {
    Step s = begin(false);
    Core c{4, 2, 8, 8, 10, 10};
    c.window = window;
    attention_core(s, c);
    EXPECT_EQ(node<AttentionPrefill>(0).window, window == 4 ? 4 : 0);
  }
}

TEST_F(Parts, ADecodeQuerySeesWhatItsChunkHolds) {
  Core c{4, 2, 8, 8, 1, 10};
  c.decode = true;
  c.window = 4;
  Step s = begin(true);
  attention_core(s, c);
  EXPECT_EQ(node<AttentionDecode>(0).context, 10);
  EXPECT_EQ(node<AttentionDecode>(0).window, 4);
  c.chunked = true;  // tokens 8 and 9 are in the third chunk
  Step chunk = begin(true);
  attention_core(chunk, c);
  EXPECT_EQ(node<AttentionDecode>(0).context, 2);
  EXPECT_EQ(node<AttentionDecode>(0).window, 0);
}

/// A step whose `rope` writes the cache doesn't have its attention write it again; where no node does, the kernels do
/// as they did where they were measured.
TEST_F(Parts, DecodeWritesTheCacheOnce) {
  Core c{4, 2, 8, 8, 1, 10};
  c.decode = true;
  Step s = begin(true);
  attention_core(s, c);
  EXPECT_EQ(node<AttentionDecode>(0).append, 0);
  c.append = 1;
  Step fused = begin(true);
  attention_core(fused, c);
  EXPECT_EQ(node<AttentionDecode>(0).append, -1);
  Step other = begin(true);
  cross_core(other, c);
  EXPECT_EQ(node<AttentionDecode>(0).append, 0) << "an encoder's keys are written once for all steps";
}

TEST_F(Parts, EagerCodeRepeatsSharedHeadsAndMasksWhereThereIsAnythingToMask) {
  Step s = begin(false, Fusion::none);
  attention_core(s, {4, 2, 8, 6, 10, 10});
  std::vector<std::string> names;
  for (const Node& each : graph.nodes) names.emplace_back(each.name);
  EXPECT_EQ(names, (std::vector<std::string>{"repeat_k", "repeat_v", "attn_scores", "attn_scale", "attn_mask",
                                             "attn_softmax", "attn_context"}));
  EXPECT_EQ(node<Gemm>(2), (Gemm{10, 10, 8, 2 * 4, {}}));
  EXPECT_EQ(node<Gemm>(6), (Gemm{10, 6, 10, 2 * 4, {}}));
  Step one = begin(true, Fusion::none);
  Core query{4, 4, 8, 8, 1, 10};
  query.decode = true;
  attention_core(one, query);
  EXPECT_EQ(graph.nodes.size(), 4u) << "one query sees all keys, and its heads have their own";
}

TEST_F(Parts, AnEncodersKeysHaveNoPagesAndNoWindow) {
  workload.page = 16;
  Step s = begin(true);
  Core c{4, 4, 8, 8, 1, 30};
  c.decode = true;
  cross_core(s, c);
  EXPECT_STREQ(graph.nodes[0].name, "cross_attention");
  EXPECT_EQ(node<AttentionDecode>(0).page, 0);
  EXPECT_EQ(node<AttentionDecode>(0).context, 30);
}

/// 2 heads; 8 wide queries, keys with values and results; 10 tokens of 8 in 2 bytes.
TEST(AttentionMemory, KeepsScoresOnlyInEagerCode) {
  const AttentionWidths n{2, 8, 8, 8, 3};
  MixerLoad load;
  load.tokens = load.kv_tokens = load.kv_len = 10;
  load.hidden = 8;
  const double kept = 10 * 2 * (8 + 8 + 8 + 3) + 10 * 2 * 8, pairs = 10 * 2 * 10;
  EXPECT_EQ(stored_attention(n, load), kept + 10 * 2 * 4);
  EXPECT_EQ(live_attention(n, load), 10 * (8 + 8 + 8 + 8 + 3));
  load.flash = false;
  EXPECT_EQ(stored_attention(n, load), kept + pairs * 2);
  EXPECT_EQ(live_attention(n, load), 10 * (8 + 8 + 8 + 8 + 3) + 2 * pairs);
  load.dropout = true;  // a byte of mask an element of the output and of the scores, and dropped scores beside theirs
  EXPECT_EQ(stored_attention(n, load), kept + 10 * 8 + pairs * 5);
  EXPECT_EQ(split_partials(3, 4, 7).in(units::B), 3 * 4 * 8 * 32 * 4);
}

TEST(Indexers, HaveQueriesOneKeyWithANormAndAWeightAHead) {
  const ParamCount count = indexer_params({2, 4, 16}, 8, 6);
  EXPECT_EQ(count.matrices, 6 * 2 * 4 + 8 * 4 + 8 * 2);
  EXPECT_EQ(count.vectors, 2 * 4);
}

TEST_F(Parts, AnIndexerScoresEveryKeyInDecodeAndHalfOfThemInPrefill) {
  const auto scores = [&](bool decode) {
    Step s = begin(decode);
    indexer(s, {2, 4, 16}, 4, 64, 100);
    for (const Node& each : graph.nodes) {
      if (each.role == NodeRole::scores) return std::get<Gemm>(each.op);
    }
    return Gemm{};
  };
  const Gemm decode = scores(true), prefill = scores(false);
  EXPECT_EQ((std::vector{decode.m, decode.n, decode.k, decode.batch}), (std::vector<std::int64_t>{2, 100, 4, 2}));
  EXPECT_EQ((std::vector{prefill.m, prefill.n, prefill.k, prefill.batch}),
            (std::vector<std::int64_t>{10, 50, 2 * 4, 2}));
  EXPECT_EQ(std::get<TopK>(graph.nodes.back().op).k, 16);
  Step few = begin(true);
  indexer(few, {2, 4, 16}, 4, 64, 9);
  EXPECT_EQ(std::get<TopK>(graph.nodes.back().op).k, 9) << "no more than there are";
}

/// 8 values with 4 of state in fp32; 2 taps of 8 + 2 channels in 16 bits.
TEST(States, AreAMatrixAndTheLastInputsOfTheConvolution) {
  const StateWidths n{8, 4, 2, 3, DType::fp32};
  CacheQuery query;
  query.tokens = 1e6;
  EXPECT_EQ(state_cache(n, query).in(units::B), 8 * 4 * 4 + 10 * 2 * 2);
  query.tensor = 2;
  EXPECT_EQ(state_cache(n, query).in(units::B), (8 * 4 * 4 + 10 * 2 * 2) / 2);
  EXPECT_EQ(state_cache({8, 4, 2, 0, DType::bf16}, CacheQuery{}).in(units::B), 8 * 4 * 2) << "no convolution";
}

TEST(States, AreKeptAtEveryChunkForTheBackwardPass) {
  MixerLoad load;
  load.tokens = 512;
  load.hidden = 8;
  EXPECT_EQ(stored_recurrence({8, 4, 2, 3, DType::fp32}, 4, load), 512 * 2 * (8 + 2 * (8 + 4) + 3 * 8) + 2 * 8 * 4 * 4);
  EXPECT_EQ(live_recurrence({8, 4, 2, 3, DType::fp32}, load), 512 * (8 + 4 * 8));
}

std::vector<bool> places(const std::string& keys) {
  const JsonDocument document = JsonDocument::parse("{" + keys + "}", "test");
  const auto here = mamba_places(LlmConfig(document.root(), document.root(), Family{}), 5);
  return here.value_or(std::vector<bool>{});
}

TEST(MambaPlaces, AreAPeriodOrWhatIsNotListed) {
  EXPECT_EQ(places(R"("attn_layer_period":3,"attn_layer_offset":1)"), (std::vector{true, false, true, true, false}));
  EXPECT_EQ(places(R"("attn_layer_period":2)"), (std::vector{false, true, false, true, false}));
  EXPECT_EQ(places(R"("attn_layer_indices":[0,4])"), (std::vector{false, true, true, true, false}));
  EXPECT_TRUE(places("").empty());
  EXPECT_THROW((void)places(R"("attn_layer_indices":[5])"), BadInput);
}

}  // namespace
}  // namespace plumbline::mixer_parts_test
