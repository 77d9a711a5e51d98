// The table of mixers, the handle that a layer holds, and the short convolution of LFM2 by hand.
#include "ops/mixer/mixer.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "ops/mixer/table.hpp"
#include "tests/ops/lower/lower_checks.hpp"
#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::mixer_test {
namespace {

TEST(Mixers, EachHasAWordAndAReader) {
  for (const MixerKind& kind : mixer_kinds()) {
    ASSERT_FALSE(kind.words.empty());
    EXPECT_NE(kind.read, nullptr) << kind.words.front();
  }
}

/// Of the mixers with one word all but the last say when they are meant, else those after them were never asked.
TEST(Mixers, OnlyTheLastOfAWordIsMeantByDefault) {
  std::set<std::string> settled;
  for (const MixerKind& kind : mixer_kinds()) {
    for (const std::string_view word : kind.words) EXPECT_EQ(settled.count(std::string(word)), 0u) << word;
    if (kind.meant != nullptr) continue;
    for (const std::string_view word : kind.words) settled.emplace(word);
  }
  for (const std::string& word : mixer_words()) EXPECT_EQ(settled.count(word), 1u) << word << ": nobody is left";
}

TEST(LayerMixers, AreEqualByKindAndSizes) {
  AttentionSpec a = gqa(8, 2, 64), b = a;
  EXPECT_EQ(LayerMixer(a), LayerMixer(b));
  b.window = 128;
  EXPECT_NE(LayerMixer(a), LayerMixer(b));
  EXPECT_NE(LayerMixer(a), LayerMixer(CrossAttentionSpec(a)));
  EXPECT_NE(LayerMixer(a), LayerMixer());
  EXPECT_EQ(LayerMixer(), LayerMixer());
}

TEST(LayerMixers, EditingACopyLeavesTheOriginal) {
  const LayerMixer one = gqa(8, 2, 64);
  LayerMixer two = one;
  two.edit<AttentionSpec>().window = 128;
  EXPECT_EQ(one.as<AttentionSpec>()->window, 0);
  EXPECT_EQ(two.as<AttentionSpec>()->window, 128);
  EXPECT_EQ(one.as<MlaSpec>(), nullptr);
  EXPECT_THROW(two.edit<MlaSpec>(), std::bad_cast);
}

/// What is the same in all layers is held once.
TEST(LayerMixers, LayersAlikeShareOne) {
  const Llm llm = load_llm("jamba-1.5-mini");  // Mamba and attention, each with and without experts
  std::set<const Mixer*> held;
  for (const LayerSpec& kind : llm.main().kinds) held.insert(kind.mixer.operator->());
  EXPECT_GT(llm.main().kinds.size(), 2u);
  EXPECT_EQ(held.size(), 2u);
}

Llm small_lfm2(const std::string& extra) {
  return parse_llm(R"({"model_type":"lfm2","hidden_size":64,"num_hidden_layers":4,"num_attention_heads":4,
                      "num_key_value_heads":2,"intermediate_size":128,"vocab_size":100,"conv_L_cache":3,
                      "tie_embedding":true,"torch_dtype":"bfloat16")" +
                       extra + "}",
                   "", "test");
}

std::string places_of(const Llm& llm) {
  std::string text;
  for (const int kind : llm.main().order) {
    text += llm.main().kinds[static_cast<std::size_t>(kind)].mixer.as<AttentionSpec>() != nullptr ? 'A' : 'C';
  }
  return text;
}

TEST(ShortConv, StandsWhereTheFileDoesNotListAttention) {
  EXPECT_EQ(places_of(small_lfm2(R"(,"full_attn_idxs":[1,3])")), "CACA");
  EXPECT_EQ(places_of(small_lfm2(R"(,"layer_types":["conv","full_attention","conv","conv"])")), "CACC");
  EXPECT_THROW(small_lfm2(R"(,"full_attn_idxs":[4])"), BadInput);
  EXPECT_THROW(small_lfm2(R"(,"full_attn_idxs":[1],"conv_dim":32)"), BadInput);
}

TEST(ShortConv, HasThreeProjectionsATapAChannelAndBiasesWhenAsked) {
  const Llm plain = small_lfm2(R"(,"full_attn_idxs":[1])");
  EXPECT_EQ(plain.main().kinds[0].mixer->params(64).matrices, 4.0 * 64 * 64);
  EXPECT_EQ(plain.main().kinds[0].mixer->params(64).vectors, 3.0 * 64);
  const Llm biased = small_lfm2(R"(,"full_attn_idxs":[1],"conv_bias":true)");
  EXPECT_EQ(biased.main().kinds[0].mixer->params(64).vectors, 3.0 * 64 + 3 * 64 + 64 + 64);
}

/// Ten layers of 2048 channels keep two 16-bit inputs each (81,920 bytes), six of attention 2 x 8 x 64 values a token.
TEST(ShortConv, KeepsItsLastInputsAndNothingMoreWithTime) {
  const Llm llm = load_llm("lfm2-1.2b");
  const auto cache = [&](std::int64_t tokens) {
    return lower(llm, decode(1, tokens - 1)).memory.kv_cache.in(units::B);
  };
  EXPECT_EQ(cache(1000), 10 * 2048 * 2 * 2 + 6 * 2 * 8 * 64 * 2 * 1000.0);
  EXPECT_EQ(cache(2000) - cache(1000), 6 * 2 * 8 * 64 * 2 * 1000.0);
  EXPECT_EQ(llm.main().kinds[0].mixer->cache({DType::fp8, DType::bf16, 1e6, 2}), 2048 * 2 * units::B);
}

TEST(ShortConv, IsTwoProjectionsTwoProductsAndAConvolutionHoweverFused) {
  const Llm llm = load_llm("lfm2-1.2b");
  for (const Fusion fusion : {Fusion::none, Fusion::typical, Fusion::max}) {
    const Graph g = lower(llm, prefill(2, 100, fusion));
    const auto& in = shape_of<Gemm>(g, "in_proj");
    EXPECT_EQ((std::vector{in.m, in.n, in.k}), (std::vector<std::int64_t>{200, 3 * 2048, 2048}));
    const auto& conv = shape_of<CausalConv>(g, "conv1d");
    EXPECT_EQ((std::vector{conv.batch, conv.seq, conv.channels, conv.width}),
              (std::vector<std::int64_t>{2, 100, 2048, 3}));
    for (const char* gate : {"gate_in", "gate_out"}) {
      EXPECT_EQ(shape_of<Rowwise>(g, gate).rows, 200);
      EXPECT_EQ(shape_of<Rowwise>(g, gate).cols, 2048);
      EXPECT_EQ(find(g, gate)->role, NodeRole::product);
    }
    EXPECT_EQ(shape_of<Gemm>(g, "out_proj").n, 2048);
  }
}

/// One layer: 2048 in, 3 x 2048 projected, then the convolution's input, its result and their product with C.
TEST(ShortConv, TrainingKeepsSevenTensorsAndAStepSix) {
  const LayerMixer mixer = load_llm("lfm2-1.2b").main().kinds[0].mixer;
  MixerLoad load;
  load.tokens = 10;
  load.hidden = 2048;
  EXPECT_EQ(mixer->stored(load), 10 * 2 * 7 * 2048.0);
  EXPECT_EQ(mixer->live(load), 10 * 6 * 2048.0);
  load.tensor = 2;
  EXPECT_EQ(mixer->stored(load), 10 * 2 * (2048 + 6 * 1024.0));
}

}  // namespace
}  // namespace plumbline::testing_support::mixer_test
