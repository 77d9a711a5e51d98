// What all readers share: layers that are alike are stored once, and the sums at the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "ops/llm/parts.hpp"
#include "ops/mixer/attention.hpp"
#include "ops/mixer/mla.hpp"
#include "tests/ops/llm/llm_texts.hpp"

namespace plumbline::llm_totals_test {
namespace {

using namespace llm_texts;
using ::testing::Contains;

LayerSpec dense(std::int64_t width) {
  LayerSpec layer;
  layer.ffn = FfnSpec{};
  layer.ffn->width = width;
  return layer;
}

/// One of four experts of width 2 is used: 3 x 4 x 2 elements each, and a router of 4 x 4.
LayerSpec routed() {
  LayerSpec layer;
  layer.ffn = FfnSpec{};
  layer.ffn->experts = 4;
  layer.ffn->topk = 1;
  layer.ffn->expert_width = 2;
  return layer;
}

StackSpec stack_of(const std::vector<LayerSpec>& layers) {
  StackSpec stack;
  stack.hidden = 4;
  for (const LayerSpec& layer : layers) append_layer(stack, layer);
  return stack;
}

constexpr double kNorms = 2 * 4, kDense8 = 3 * 4 * 8 + kNorms;
constexpr double kExpert = 3 * 4 * 2, kRouted = 4 * kExpert + 4 * 4 + kNorms;

TEST(AppendLayer, StoresEqualKindsOnceWhereverTheyStand) {
  const StackSpec stack = stack_of({dense(8), dense(16), dense(8), dense(8)});
  ASSERT_EQ(stack.kinds.size(), 2u);
  EXPECT_EQ(stack.order, (std::vector{0, 1, 0, 0}));
  EXPECT_EQ(stack.kinds[0].params, kDense8);
  EXPECT_EQ(stack.kinds[1].params, 3 * 4 * 16 + kNorms);
}

Llm small(const std::vector<LayerSpec>& layers, bool tied) {
  Llm llm;
  llm.hidden = 4;
  llm.vocab = 10;
  llm.tied_embeddings = tied;
  llm.stacks.push_back(stack_of(layers));
  llm.stacks.back().other_params = 4;
  return llm;
}

TEST(FinishTotals, CountsEmbeddingHeadLayersAndTheRest) {
  Llm llm = small({dense(8), dense(8)}, false);
  finish_totals(llm);
  EXPECT_EQ(llm.embedding_params, 40);
  EXPECT_EQ(llm.head_params, 40);
  EXPECT_EQ(llm.params, 40 + 40 + 2 * kDense8 + 4);
  EXPECT_EQ(llm.active_params, llm.params);
  EXPECT_EQ(llm.active_params_no_input_embedding, llm.params) << "nothing is left out where all is active";
  Llm tied = small({dense(8), dense(8)}, true);
  finish_totals(tied);
  EXPECT_EQ(tied.params, llm.params - 40);
}

TEST(FinishTotals, LeavesTheInputEmbeddingOutOfActiveParametersOfExpertsWithAHeadOfTheirOwn) {
  Llm llm = small({routed()}, false);
  finish_totals(llm);
  EXPECT_EQ(llm.params, 80 + kRouted + 4);
  EXPECT_EQ(llm.active_params, 80 + kRouted - 3 * kExpert + 4);
  EXPECT_EQ(llm.active_params_no_input_embedding, llm.active_params - 40);
  Llm tied = small({routed()}, true);
  finish_totals(tied);
  EXPECT_EQ(tied.active_params_no_input_embedding, tied.active_params);
}

TEST(FinishTotals, KeepsWhatAReaderHasCountedOfEmbeddingAndHead) {
  Llm llm = small({dense(8)}, false);
  llm.embedding_params = 20;  // OPT-350M: narrower than the hidden width
  llm.head_params = 10;       // Phi: a bias
  finish_totals(llm);
  EXPECT_EQ(llm.embedding_params, 20);
  EXPECT_EQ(llm.head_params, 50);
  Llm without = small({dense(8)}, false);
  without.has_head = false;
  finish_totals(without);
  EXPECT_EQ(without.head_params, 0);
}

TEST(FinishTotals, SharedWeightsCountOnceAKind) {
  Llm llm = small({dense(8), dense(8), dense(8)}, true);
  llm.stacks[0].shared_weights = true;
  finish_totals(llm);
  EXPECT_EQ(llm.params, 40 + kDense8 + 4);
}

/// 2 heads x (8 + 8) a token and layer, whatever the window; 6 + 2 of a latent beside 3 of the indexer's key.
TEST(FinishTotals, TheCacheATokenIsTheMainDecodersWithNoWindow) {
  AttentionSpec a;
  a.q_heads = 4;
  a.kv_heads = 2;
  a.qk_dim = a.v_dim = 8;
  AttentionSpec slides = a;
  slides.window = 16;
  MlaSpec latent;
  latent.heads = 4;
  latent.kv_lora_rank = 6;
  latent.rope_dim = 2;
  latent.index = {1, 3, 5};
  LayerSpec full = dense(8), sliding = dense(8), mla = dense(8);
  full.mixer = a;
  sliding.mixer = slides;
  mla.mixer = latent;
  Llm llm = small({full, sliding, mla, dense(8)}, true);
  llm.stacks.push_back(llm.stacks[0]);
  llm.stacks.back().role = StackSpec::Role::encoder;
  Llm encoder = llm;
  finish_totals(llm);
  EXPECT_EQ(llm.kv_elements_per_token, 32 + 32 + 8);
  EXPECT_EQ(llm.index_elements_per_token, 3);
  encoder.stacks.erase(encoder.stacks.begin());
  finish_totals(encoder);
  EXPECT_EQ(encoder.kv_elements_per_token, 0);
}

TEST(ReadCommon, TakesPaddedVocabularyTyingAndTypeFromWhereTheyAre) {
  EXPECT_EQ(read(llama(R"(,"padded_vocab_size":128)")).vocab, 128);
  EXPECT_TRUE(read(llama(R"(,"tie_word_embeddings":true)")).tied_embeddings);
  const Llm odd = read(llama(R"(,"torch_dtype":"float7")"));
  EXPECT_EQ(odd.dtype, DType::bf16);
  EXPECT_THAT(odd.assumptions, Contains("the file's dtype \"float7\" is not a type: bf16"));
  EXPECT_EQ(read(llama(R"(,"max_position_embeddings":4096)")).max_context, 4096);
}

}  // namespace
}  // namespace plumbline::llm_totals_test
