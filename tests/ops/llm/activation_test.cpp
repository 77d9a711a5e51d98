// What a config or its class calls the activation, and what an eager framework keeps for its gradient.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ops/llm/llm.hpp"
#include "ops/memory/source_keeps.hpp"

namespace plumbline::activation_test {
namespace {

Llm read(const std::string& more) {
  return parse_llm("{" + more + R"("hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,
                   "intermediate_size":128,"vocab_size":512})",
                   "", "test");
}

std::string activation(const std::string& more) { return read(more).activation; }

TEST(Activation, IsWhatTheConfigSaysElseItsClass) {
  EXPECT_EQ(activation(R"("model_type":"gpt2","activation_function":"gelu",)"), "gelu");
  EXPECT_EQ(activation(R"("model_type":"gpt2",)"), "gelu_new");
  EXPECT_EQ(activation(R"("model_type":"gpt_bigcode",)"), "gelu_pytorch_tanh");
  EXPECT_EQ(activation(R"("model_type":"llama","hidden_act":"swish",)"), "silu");
  EXPECT_EQ(activation(R"("model_type":"nemotron","head_dim":16,)"), "relu2");
  EXPECT_EQ(activation(R"("model_type":"apertus",)"), "xielu");
  EXPECT_EQ(activation(R"("model_type":"bloom",)"), "") << "code of its own";
}

TEST(Activation, ThatNobodyKnowsIsSaidWithTheNearest) {
  const Llm llm = read(R"("model_type":"llama","hidden_act":"gleu_new",)");
  EXPECT_THAT(llm.assumptions, ::testing::Contains(::testing::AllOf(::testing::HasSubstr("'gleu_new' is not known"),
                                                                    ::testing::HasSubstr("did you mean 'gelu_new'"))));
}

TEST(Activation, WrittenOutItKeepsWhatItsPartsRead) {
  EXPECT_EQ(lowering::activation_keeps("gelu", Activation::gelu, false).elements, 0);
  EXPECT_EQ(lowering::activation_keeps("gelu_new", Activation::gelu, false).elements, 3);
  EXPECT_EQ(lowering::activation_keeps("gelu_new", Activation::gelu, true).in_fp32, 3);
  EXPECT_EQ(lowering::activation_keeps("xielu", Activation::gelu, false).masks, 1);
  EXPECT_EQ(lowering::activation_keeps("", Activation::relu, false).elements, -1) << "by its kind";
}

}  // namespace
}  // namespace plumbline::activation_test
