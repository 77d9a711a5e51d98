// What a config.json may not say: values of another type, keys twice, switches that nobody knows (M8, L3 and L6 of the
// attack; "Ignored input").
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "arch/files.hpp"
#include "tests/ops/llm/llm_texts.hpp"

namespace plumbline::llm_refusals_test {
namespace {

using namespace llm_texts;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Refusals, ValuesOfAnotherTypeNameTheirKey) {
  struct {
    const char *extra, *place;
  } const cases[] = {
      {R"(,"quantization_config":3)", "/quantization_config: expected an object, found 3"},
      {R"(,"quantization_config":"x")", "/quantization_config: expected an object, found \"x\""},
      {R"(,"quantization_config":[])", "/quantization_config: expected an object, found []"},
      {R"(,"quantization_config":true)", "/quantization_config: expected an object, found true"},
      {R"(,"quantization_config":{"quant_method":8})", "/quantization_config/quant_method: expected a string"},
      {R"(,"quantization_config":{"quant_method":"fp8","ignore":"lm_head"})", "/ignore: expected a list"},
      {R"(,"quantization_config":{"quant_method":"fp8","ignore":["lm_head",3]})", "/ignore/1: expected a string"},
      {R"(,"quantization_config":{"config_groups":[]})", "/config_groups: expected an object"},
      {R"(,"quantization_config":{"config_groups":{"g":{"weights":{"num_bits":8},"input_activations":8}}})",
       "/config_groups/g/input_activations: expected an object"},
      {R"(,"quantization_config":{"config_groups":{"g":{"weights":{"num_bits":8,"type":1}}}})",
       "/config_groups/g/weights/type: expected a string"},
      {R"(,"quantization_config":{"quant_method":"fp8","kv_cache_quant_algo":8})", "/kv_cache_quant_algo: expected"},
      {R"(,"quantization_config":{"quant_method":"fp8","kv_cache_quant_algo":"FP9"})", "did you mean 'FP8'?"},
      {R"(,"quantization_config":{"quant_method":"bitsandbytes","load_in_4bit":"yes"})",
       "/load_in_4bit: expected true"},
      {R"(,"attention_bias":0.5)", "/attention_bias: expected a whole number, found 0.5"},
      {R"(,"attention_bias":-1)", "/attention_bias: expected a whole number from 0 to 1, found -1"},
      {R"(,"mlp_bias":2)", "/mlp_bias: expected a whole number from 0 to 1, found 2"},
      {R"(,"attention_bias":"true")", "/attention_bias: expected true or false"},
      {R"(,"torch_dtype":16)", "/torch_dtype: expected a string, found 16"},
      {R"(,"model_type":7)", "/model_type: expected a string, found 7"},
      {R"(,"model_type":["llama"])", "/model_type: expected a string"},
      {R"(,"architectures":"LlamaForCausalLM","model_type":null)", "/architectures: expected a list"},
      {R"(,"architectures":[1],"model_type":null)", "/architectures/0: expected a string"},
      {R"(,"text_config":"inside")", "/text_config: expected an object"},
      {R"(,"vision_config":5)", "/vision_config: expected an object"},
      {R"(,"attn_config":5)", "/attn_config: expected an object"},
  };
  for (const auto& [extra, place] : cases) {
    EXPECT_THAT(refusal(llama(extra)), AllOf(StartsWith("test: /"), HasSubstr(place))) << extra;
  }
}

/// What is no plain size or switch and may describe a part all the same.
TEST(Refusals, PartsThatNobodyKnowsAreNotPassedBy) {
  for (const char* extra : {R"(,"gate_config":{"hidden_size":128})", R"(,"block_list":[{"kind":"conv","width":3}])",
                            R"(,"memory":{"inner":{"num_slots":4}})", R"(,"attention_type":"linear")",
                            R"(,"mlp_type":"mixture")", R"(,"ffn_mult":1.3)", R"(,"expert_width_ratio":2)"}) {
    EXPECT_THAT(refusal(llama(extra)), HasSubstr("may describe a part of a layer, and is not known")) << extra;
  }
  for (const char* extra :
       {R"(,"rope_scaling":{"original_size":128})", R"(,"task_specific_params":{"x":{"num_beams":4}})",
        R"(,"auto_map":{"AutoModel":"x"})", R"(,"attention_type":"full")", R"(,"ffn_mult":1.0)",
        R"(,"expert_capacity_factor":1.25)", R"(,"lm_head_multiplier":0.5)", R"(,"stop_words":["a","b"])"}) {
    EXPECT_NO_THROW((void)read(llama(extra))) << extra;
  }
}

/// The number of experts a token goes to has many names; none of them is passed by for the class's default.
TEST(Refusals, ExpertsATokenAreFoundByAnyName) {
  for (const char* name : {"num_experts_per_tok", "moe_top_k", "num_selected_experts", "top_k", "moe_topk", "moe_k"}) {
    const Llm llm =
        read(llama(R"(,"model_type":"qwen3_moe","head_dim":8,"num_experts":16,"moe_intermediate_size":32,")" +
                   std::string(name) + R"(":3)"));
    EXPECT_EQ(llm.main().kinds.front().ffn->topk, 3) << name;
  }
}

TEST(Refusals, SwitchesMayBeWrittenAsNumbers) {
  EXPECT_EQ(read(llama(R"(,"attention_bias":1)")).params, read(llama(R"(,"attention_bias":true)")).params);
  EXPECT_EQ(read(llama(R"(,"attention_bias":0)")).params, read(llama()).params);
}

TEST(Refusals, UnknownSwitchesThatAreOnAreRefused) {
  EXPECT_EQ(refusal(llama(R"(,"parallel_dense_mlp":true)")),
            "test: /parallel_dense_mlp: true, and not known; take it out of the file if it changes no operator and no "
            "weight, else write the model as a graph (docs/graphs.md)");
  EXPECT_EQ(refusal(llama(R"(,"parallel_dense_mlp":false)")), "(accepted)");
  EXPECT_EQ(refusal(llama(R"(,"use_cache":true)")), "(accepted)");
}

/// "Two million unknown keys: stop at the first 100": they took time by the square of their number.
TEST(Refusals, AHundredUnknownKeysAreNamedAndMoreAreNoModel) {
  const auto with = [](int count, const std::string& name, const std::string& value) {
    std::string extra;
    for (int i = 0; i < count; ++i) extra += ",\"" + std::to_string(i) + name + "\":" + value;
    return llama_text(extra);
  };
  for (const auto& [name, value] : {std::pair{"_size", "7"}, std::pair{"_switch", "true"}}) {
    EXPECT_THAT(refusal(with(100, name, value)), HasSubstr("0" + std::string(name)));
    EXPECT_EQ(refusal(with(101, name, value)),
              "test: /: more than 100 keys that are not known: is this a config.json?");
  }
  EXPECT_THAT(refusal(with(200000, "_size", "7")), HasSubstr("more than 100"));
}

// MptModel of transformers has no table of positions, whatever the file says of ALiBi.
TEST(Refusals, LearnedPositionsOfMptAreNotCounted) {
  const auto params = [](const std::string& more) {
    return read(R"({"model_type":"mpt","d_model":64,"n_heads":4,"n_layers":2,"vocab_size":100,"max_seq_len":50,
                    "torch_dtype":"bfloat16")" +
                more + "}")
        .params;
  };
  const double none = params("");
  EXPECT_EQ(params(R"(,"attn_config":{"alibi":false})"), none);
  EXPECT_EQ(params(R"(,"learned_pos_emb":true,"attn_config":{"alibi":false})"), none);
  EXPECT_EQ(params(R"(,"learned_pos_emb":false,"attn_config":{"alibi":false})"), none);
  EXPECT_EQ(params(R"(,"learned_pos_emb":true,"attn_config":{"alibi":true})"), none);
  EXPECT_EQ(params(R"(,"attn_config":{"alibi":false,"rope":true})"), none);
}

/// A key of a file may hold anything; what is said about it may not.
TEST(Refusals, NotesAndNamesArePrintable) {
  EXPECT_EQ(read(llama(R"(,"model_type":"new\u0007")")).model_type, "new\\x07");
  EXPECT_THAT(refusal(llama(R"(,"\u001b[31m_size":3)")), HasSubstr("\\x1b[31m_size"));
}

}  // namespace
}  // namespace plumbline::llm_refusals_test
