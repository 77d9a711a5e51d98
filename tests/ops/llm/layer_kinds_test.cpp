// What reports say of a model's layers.
#include "ops/llm/layer_kinds.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/ops/llm/llm_texts.hpp"

namespace plumbline::layer_kinds_test {
namespace {

using llm_texts::llama;
using llm_texts::read;

std::string text(const Llm& llm) { return layers_text(layer_kinds(llm)); }

TEST(LayerKinds, AreNamedAsTheFieldNamesThem) {
  EXPECT_EQ(text(read(llama())), "2 x gqa + swiglu");
  EXPECT_EQ(text(read(llama(R"(,"num_key_value_heads":4)"))), "2 x mha + swiglu");
  EXPECT_EQ(text(read(llama(R"(,"num_key_value_heads":1,"hidden_act":"gelu")"))), "2 x mqa + geglu");
  EXPECT_EQ(text(read(llama(R"(,"model_type":"mistral","sliding_window":32)"))), "2 x gqa(window 32) + swiglu");
  EXPECT_EQ(text(read(llama(R"(,"model_type":"mixtral","num_local_experts":8,"num_experts_per_tok":2)"))),
            "2 x gqa + moe(2 of 8)");
  EXPECT_EQ(text(load_llm("gpt2")), "12 x mha + mlp");
  EXPECT_EQ(text(load_llm("deepseek-v3")), "3 x mla + swiglu, 58 x mla + moe(8 of 256 + shared)");
  EXPECT_EQ(text(load_llm("llava-1.5-7b")), "32 x mha + swiglu, vision 24 x mha + mlp");
}

TEST(LayerKinds, OfOneTextAndOtherSizesAreCountedTogether) {
  const Llm llm = read(llama(R"(,"intermediate_size":[128,256])"));
  EXPECT_EQ(text(llm), "2 x gqa + swiglu of 2 sizes");
}

TEST(LayerKinds, AreAsManyAsTheLayers) {
  for (const std::string& name : llm_names()) {
    const Llm llm = load_llm(name);
    std::int64_t layers = 0, sizes = 0, counted = 0, different = 0;
    for (const StackSpec& stack : llm.stacks) {
      layers += static_cast<std::int64_t>(stack.order.size());
      sizes += static_cast<std::int64_t>(stack.kinds.size());
    }
    for (const LayerKind& kind : layer_kinds(llm)) {
      counted += kind.count;
      different += kind.sizes;
      EXPECT_FALSE(kind.text.empty()) << name;
    }
    EXPECT_EQ(counted, layers) << name;
    EXPECT_EQ(different, sizes) << name;
  }
}

}  // namespace
}  // namespace plumbline::layer_kinds_test
