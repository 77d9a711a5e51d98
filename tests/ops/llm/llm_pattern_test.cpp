// Which layer mixes tokens how: every source of the pattern that a config may have, and what is refused.
#include <gtest/gtest.h>

#include <string>

#include "arch/error.hpp"
#include "ops/llm/llm.hpp"
#include "ops/mixer/attention.hpp"

namespace plumbline::llm_pattern_test {
namespace {

Llm read(const std::string& type, const std::string& extra) {
  return parse_llm(R"({"hidden_size":64,"num_hidden_layers":6,"num_attention_heads":4,"num_key_value_heads":2,
                      "intermediate_size":128,"vocab_size":100,"tie_word_embeddings":false,"torch_dtype":"bfloat16",
                      "model_type":")" +
                       type + "\"" + extra + "}",
                   "", "test");
}

/// A letter a layer: F full, S sliding, C chunked, R recurrent.
std::string layers(const Llm& llm) {
  std::string text;
  for (const int kind : llm.main().order) {
    const LayerSpec& l = llm.main().kinds[static_cast<std::size_t>(kind)];
    const auto* attention = l.mixer.as<AttentionSpec>();
    text += attention == nullptr ? 'R' : attention->chunked ? 'C' : attention->window > 0 ? 'S' : 'F';
  }
  return text;
}

TEST(LayerPattern, AWindowAloneSlidesEveryLayerOfFamiliesThatSayIt) {
  EXPECT_EQ(layers(read("mistral", "")), "SSSSSS") << "MistralConfig's window, where the file is silent";
  EXPECT_EQ(layers(read("llama", "")), "FFFFFF");
  EXPECT_EQ(layers(read("mistral", R"(,"sliding_window":32)")), "SSSSSS");
  EXPECT_EQ(layers(read("mistral", R"(,"sliding_window":null)")), "FFFFFF");
}

TEST(LayerPattern, ListsNameEachLayer) {
  const std::string types = R"(,"sliding_window":32,"layer_types":["full_attention","sliding_attention",
      "sliding_attention","full_attention","sliding_attention","sliding_attention"])";
  EXPECT_EQ(layers(read("mistral", types)), "FSSFSS");
  EXPECT_THROW((void)read("mistral", R"(,"sliding_window":32,"layer_types":["full_attention"])"), BadInput);
  EXPECT_THROW((void)read("mistral", R"(,"layer_types":["full","f","f","f","f","f"])"), BadInput);
}

TEST(LayerPattern, PeriodsCountFromTheFirstLayer) {
  EXPECT_EQ(layers(read("gemma3", R"(,"sliding_window":32,"head_dim":16)")), "SSSSSF");  // the class default: 6
  EXPECT_EQ(layers(read("gemma3", R"(,"sliding_window":32,"head_dim":16,"sliding_window_pattern":3)")), "SSFSSF");
  EXPECT_EQ(layers(read("gemma2", R"(,"sliding_window":32,"head_dim":16)")), "SFSFSF");
  EXPECT_EQ(layers(read("llama", R"(,"sliding_window":32,"sliding_window_pattern":"LLG")")), "SSFSSF");
  EXPECT_THROW((void)read("llama", R"(,"sliding_window":32,"sliding_window_pattern":"LX")"), BadInput);
  EXPECT_THROW((void)read("llama", R"(,"sliding_window":32,"sliding_window_pattern":0)"), BadInput);
}

TEST(LayerPattern, QwenSlidesOnlyWhereAskedAndFromALayerOn) {
  EXPECT_EQ(layers(read("qwen2", R"(,"sliding_window":32,"max_window_layers":4)")), "FFFFFF");
  EXPECT_EQ(layers(read("qwen2", R"(,"sliding_window":32,"max_window_layers":4,"use_sliding_window":true)")), "FFFFSS");
}

}  // namespace
}  // namespace plumbline::llm_pattern_test
