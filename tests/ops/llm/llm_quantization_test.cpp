// How the published weights are stored: every place that says it, what exclusions leave out, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ops/llm/parts.hpp"
#include "tests/ops/llm/llm_texts.hpp"

namespace plumbline::llm_quantization_test {
namespace {

using namespace llm_texts;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Quantization, IsReadFromAllItsPlaces) {
  const auto q = [](const char* name) { return load_llm(name).quantization; };
  EXPECT_EQ(q("deepseek-v3").linear, DType::fp8);
  EXPECT_EQ(q("deepseek-v3").activation, DType::fp8);
  EXPECT_EQ(q("gpt-oss-120b").experts, DType::mxfp4);
  EXPECT_EQ(q("gpt-oss-120b").linear, DType::bf16);
  EXPECT_EQ(q("gpt-oss-120b").activation, DType::bf16);
  EXPECT_EQ(q("llama-3.1-70b-fp8").linear, DType::fp8) << "only hf_quant_config.json says so";
  EXPECT_EQ(q("llama-3.1-70b-fp8").kv, DType::fp8);
  EXPECT_EQ(q("deepseek-v3.1-nvfp4").experts, DType::nvfp4);
  EXPECT_EQ(q("deepseek-v3.1-nvfp4").linear, DType::bf16);
  EXPECT_EQ(q("kimi-k2.5").experts, DType::int4);
  EXPECT_EQ(q("kimi-k2.5").linear, DType::bf16);
  EXPECT_EQ(q("llama-4-scout-fp8-dynamic").experts, DType::fp8);
  EXPECT_EQ(q("deepseek-v4-pro").experts, DType::mxfp4);
  EXPECT_EQ(q("deepseek-v4-pro").linear, DType::fp8);
  EXPECT_EQ(q("llama-2-7b").linear, DType::fp16);
  EXPECT_EQ(q("llama-2-7b").method, "none");
}

TEST(Quantization, OfOtherTools) {
  const auto with = [](const std::string& block, const std::string& quant = "") {
    return read(llama(block.empty() ? "" : R"(,"quantization_config":)" + block), quant).quantization;
  };
  EXPECT_EQ(with(R"({"quant_method":"gptq","bits":4,"group_size":128})").linear, DType::int4);
  EXPECT_EQ(with(R"({"quant_method":"gptq","bits":4,"group_size":128})").activation, DType::bf16);
  EXPECT_EQ(with(R"({"quant_method":"awq","bits":8})").linear, DType::int8);
  EXPECT_EQ(with(R"({"quant_method":"bitsandbytes","load_in_8bit":true})").linear, DType::int8);
  EXPECT_EQ(with(R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{
      "weights":{"num_bits":8,"type":"int"},"input_activations":{"num_bits":8,"type":"int"}}}})")
                .activation,
            DType::int8);
  EXPECT_EQ(with("", R"({"quantization":{"quant_algo":"NVFP4","kv_cache_quant_algo":"FP8"}})").linear, DType::nvfp4);
  EXPECT_EQ(refusal(llama(R"(,"quantization_config":{"quant_method":"gptqq"})")),
            "test: /quantization_config/quant_method: quantization 'gptqq' is not understood (did you mean 'gptq'?)");
  EXPECT_EQ(refusal(llama(), R"({"quantization":{"quant_algo":"NVFP5"}})"),
            "test (hf_quant_config.json): /quantization/quant_algo: quant_algo 'NVFP5' is not understood (did you mean "
            "'NVFP4'?)");
}

TEST(Quantization, ScalesOfBlocksAreReadWhereverAToolPutsThem) {
  const auto block = [](const std::string& words) {
    return read(llama(R"(,"quantization_config":{)" + words + "}")).quantization.block;
  };
  const std::string fp8 = R"("quant_method":"fp8")";
  EXPECT_EQ(block(fp8), 0);
  EXPECT_EQ(block(fp8 + R"(,"weight_block_size":null)"), 0);
  EXPECT_EQ(block(fp8 + R"(,"weight_block_size":[128,128])"), 128);
  EXPECT_EQ(block(R"("quant_method":"compressed-tensors","config_groups":{"group_0":{
      "weights":{"num_bits":8,"type":"float","strategy":"block","block_structure":[128,128]},
      "input_activations":{"num_bits":8,"type":"float"}}})"),
            128);
  EXPECT_EQ(block(R"("quant_method":"modelopt","quant_algo":"FP8_PB_WO")"), 128);
  EXPECT_EQ(block(R"("quant_method":"gptq","bits":4,"weight_block_size":[128,128])"), 0) << "no 8-bit products";
  const Llm other = read(llama(R"(,"quantization_config":{)" + fp8 + R"(,"weight_block_size":[1,32]})"));
  EXPECT_EQ(other.quantization.block, 0);
  EXPECT_THAT(other.assumptions, Contains(HasSubstr("blocks of [1,32]: costed as one scale a matrix")));
  EXPECT_EQ(load_llm("deepseek-v3").quantization.block, 128);
  EXPECT_EQ(load_llm("qwen3-32b-fp8-static").quantization.block, 0);
}

Llm quantized(const std::string& block, const std::string& extra = "") {
  return read(llama(R"(,"quantization_config":)" + block + extra));
}

/// Four layers of attention and experts.
Llm experts(const std::string& block) {
  return quantized(block,
                   R"(,"model_type":"mixtral","num_hidden_layers":4,"num_local_experts":4,"num_experts_per_tok":2)");
}

std::string fp8_without(const std::string& key, const std::string& modules) {
  return R"({"quant_method":"fp8",")" + key + "\":[" + modules + "]}";
}

TEST(Quantization, ExclusionsOfHalfTheLayersCountAndThoseOfFewerDoNot) {
  const auto linear = [](const std::string& modules) {
    return experts(fp8_without("modules_to_not_convert", modules)).quantization.linear;
  };
  EXPECT_EQ(linear(R"("model.layers.0.self_attn")"), DType::fp8);
  EXPECT_EQ(linear(R"("model.layers.0.self_attn","model.layers.0.self_attn.o_proj")"), DType::fp8) << "one layer twice";
  EXPECT_EQ(linear(R"("model.layers.0.self_attn","model.layers.11.self_attn")"), DType::bf16);
  EXPECT_EQ(linear(R"("*self_attn*")"), DType::bf16) << "no layer named: all of them";
}

TEST(Quantization, ExclusionsStandUnderEachToolsKeyAndSomeMeanNoPartOfALayer) {
  for (const char* key : {"modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"}) {
    EXPECT_EQ(experts(fp8_without(key, R"("attention")")).quantization.linear, DType::bf16) << key;
  }
  const Llm kept = experts(fp8_without("ignore", R"("vision.attn","attn_norm","lm_head","layers.0.mlp.gate")"));
  EXPECT_EQ(kept.quantization.linear, DType::fp8);
  EXPECT_EQ(kept.quantization.experts, DType::fp8);
}

TEST(Quantization, ExpertsAreLeftOutByTheirOwnName) {
  EXPECT_EQ(experts(fp8_without("ignore", R"("mlp.experts")")).quantization.experts, DType::bf16);
  EXPECT_EQ(experts(fp8_without("ignore", R"("mlp.experts")")).quantization.linear, DType::fp8);
  EXPECT_EQ(experts(fp8_without("ignore", R"("mlp.shared_experts")")).quantization.experts, DType::fp8);
}

/// One type stands for attention and dense FFN: attention's among experts, the FFN's without them.
TEST(Quantization, WithoutExpertsTheDenseFfnDecides) {
  EXPECT_EQ(quantized(fp8_without("ignore", R"("mlp.down_proj")")).quantization.linear, DType::bf16);
  EXPECT_EQ(experts(fp8_without("ignore", R"("mlp.down_proj")")).quantization.linear, DType::fp8);
  const Llm attention = quantized(fp8_without("ignore", R"("self_attn")"));
  EXPECT_EQ(attention.quantization.linear, DType::fp8);
  EXPECT_THAT(attention.assumptions, Contains(HasSubstr("attention is left in 16 bits")));
}

std::string group(const std::string& weights, const std::string& inputs = "") {
  return R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{)" + weights + "}" +
         (inputs.empty() ? "" : R"(,"input_activations":{)" + inputs + "}") + "}}}";
}

TEST(Quantization, WidthsAndTypesOfAGroupNameTheFormat) {
  const auto weight = [](const std::string& text) { return quantized(group(text)).quantization.linear; };
  EXPECT_EQ(weight(R"("num_bits":8,"type":"float")"), DType::fp8);
  EXPECT_EQ(weight(R"("num_bits":8,"type":"int")"), DType::int8);
  EXPECT_EQ(weight(R"("num_bits":4,"type":"int","group_size":128)"), DType::int4);
  EXPECT_EQ(weight(R"("num_bits":4,"type":"float","group_size":32)"), DType::mxfp4);
  EXPECT_EQ(weight(R"("num_bits":4,"type":"float","group_size":16)"), DType::nvfp4);
  EXPECT_EQ(weight(R"("num_bits":16,"type":"float")"), DType::bf16);
  EXPECT_EQ(
      quantized(group(R"("num_bits":8,"type":"float")", R"("num_bits":8,"type":"float")")).quantization.activation,
      DType::fp8);
  EXPECT_EQ(quantized(group(R"("num_bits":8,"type":"float")")).quantization.activation, DType::bf16);
  EXPECT_THAT(quantized(group(R"("num_bits":4,"type":"int","group_size":64)")).assumptions,
              Contains("4-bit groups of 64: stored as groups of 128"));
  EXPECT_THAT(refusal(llama(R"(,"quantization_config":)" + group(R"("num_bits":6)"))),
              HasSubstr("expected 4, 8 or 16 bits, found 6"));
  EXPECT_THAT(refusal(llama(R"(,"quantization_config":{"quant_method":"gptq","bits":3})")),
              HasSubstr("expected 4 or 8 'bits', found 3"));
}

TEST(Quantization, OfTheCacheComesFromEitherFileAndTheOneBesideCountsLast) {
  const auto kv = [](const std::string& block, const std::string& beside = "") {
    return read(llama(block.empty() ? "" : R"(,"quantization_config":)" + block), beside).quantization.kv;
  };
  const std::string inside = R"({"quant_method":"fp8","kv_cache_scheme":{"num_bits":8,"type":"float"}})";
  EXPECT_EQ(kv(R"({"quant_method":"fp8"})"), DType::bf16);
  EXPECT_EQ(kv(inside), DType::fp8);
  EXPECT_EQ(kv(inside, R"({"quantization":{"kv_cache_quant_algo":"INT8"}})"), DType::int8);
  EXPECT_EQ(kv("", R"({"quantization":{"kv_cache_quant_algo":"NVFP4"}})"), DType::nvfp4);
  EXPECT_THAT(refusal(llama(), R"({"producer":{}})"), HasSubstr("expected an object 'quantization'"));
}

TEST(Quantization, TheFileBesideCountsForWeightsOnlyWhereTheModelsSaysNothing) {
  const std::string beside = R"({"quantization":{"quant_algo":"NVFP4"}})";
  EXPECT_EQ(read(llama(R"(,"quantization_config":{"quant_method":"fp8"})"), beside).quantization.linear, DType::fp8);
  EXPECT_EQ(read(llama(), beside).quantization.linear, DType::nvfp4);
}

TEST(Quantization, WideFilesAreServedInSixteenBits) {
  const Llm wide = read(llama(R"(,"torch_dtype":"float32")"));
  EXPECT_EQ(wide.quantization.linear, DType::bf16);
  EXPECT_THAT(wide.assumptions, Contains("the file's fp32 weights are served in bf16"));
  const Llm half = read(llama(R"(,"torch_dtype":"float16")"));
  EXPECT_EQ(half.quantization.kv, DType::fp16);
  EXPECT_THAT(half.assumptions, Not(Contains(HasSubstr("served in bf16"))));
}

}  // namespace
}  // namespace plumbline::llm_quantization_test
