// Models that are not under data/models, against the parameter counts that their hub pages state.
#include <gtest/gtest.h>

#include <string>

#include "ops/llm/llm.hpp"

namespace plumbline::llm_variants_test {
namespace {

struct Variant {
  const char* name;
  double params;
  const char* config;
};

// Configs cut to the keys that matter; counts are those of the checkpoints on the hub (or `num_parameters()`).
const Variant kVariants[] = {
    {"falcon-7b", 6921720704,
     R"({"model_type":"falcon","hidden_size":4544,"num_hidden_layers":32,"num_attention_heads":71,"multi_query":true,
         "parallel_attn":true,"new_decoder_architecture":false,"bias":false,"alibi":false,"vocab_size":65024})"},
    {"pythia-70m", 70426624,
     R"({"model_type":"gpt_neox","hidden_size":512,"num_hidden_layers":6,"num_attention_heads":8,
         "intermediate_size":2048,"vocab_size":50304,"tie_word_embeddings":false,"max_position_embeddings":2048})"},
    {"pythia-6.9b", 6857302016,
     R"({"model_type":"gpt_neox","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,
         "intermediate_size":16384,"vocab_size":50432,"tie_word_embeddings":false})"},
    {"opt-125m", 125239296,
     R"({"model_type":"opt","hidden_size":768,"num_hidden_layers":12,"num_attention_heads":12,"ffn_dim":3072,
         "vocab_size":50272,"max_position_embeddings":2048,"word_embed_proj_dim":768})"},
    {"opt-350m", 331196416,
     R"({"model_type":"opt","hidden_size":1024,"num_hidden_layers":24,"num_attention_heads":16,"ffn_dim":4096,
         "vocab_size":50272,"max_position_embeddings":2048,"word_embed_proj_dim":512,"do_layer_norm_before":false})"},
    {"bloom-560m", 559214592,
     R"({"model_type":"bloom","n_embed":1024,"hidden_size":1024,"n_layer":24,"num_attention_heads":16,
         "vocab_size":250880})"},
    {"gpt-neo-125m", 125198592,
     R"({"model_type":"gpt_neo","hidden_size":768,"num_layers":12,"num_heads":12,"vocab_size":50257,
         "max_position_embeddings":2048,"intermediate_size":null,"window_size":256,
         "attention_types":[[["global","local"],6]]})"},
    {"gpt2-large", 774030080,
     R"({"model_type":"gpt2","n_embd":1280,"n_layer":36,"n_head":20,"n_positions":1024,"vocab_size":50257})"},
    {"gemma-7b", 8537680896,
     R"({"model_type":"gemma","hidden_size":3072,"num_hidden_layers":28,"num_attention_heads":16,
         "num_key_value_heads":16,"head_dim":256,"intermediate_size":24576,"vocab_size":256000})"},
    {"roberta-base", 124645632,
     R"({"model_type":"roberta","architectures":["RobertaForMaskedLM"],"hidden_size":768,"num_hidden_layers":12,
         "num_attention_heads":12,"intermediate_size":3072,"vocab_size":50265,"max_position_embeddings":514,
         "type_vocab_size":1})"},
    {"distilbert-base", 66362880,
     R"({"model_type":"distilbert","dim":768,"n_layers":6,"n_heads":12,"hidden_dim":3072,"vocab_size":30522,
         "max_position_embeddings":512})"},
    {"t5-small", 60506624,
     R"({"model_type":"t5","d_model":512,"d_ff":2048,"d_kv":64,"num_heads":8,"num_layers":6,"vocab_size":32128})"},
    {"flan-t5-base", 247577856,
     R"({"model_type":"t5","d_model":768,"d_ff":2048,"d_kv":64,"num_heads":12,"num_layers":12,"num_decoder_layers":12,
         "feed_forward_proj":"gated-gelu","tie_word_embeddings":false,"vocab_size":32128})"},
    {"whisper-tiny", 37760640,
     R"({"model_type":"whisper","d_model":384,"encoder_layers":4,"decoder_layers":4,"encoder_attention_heads":6,
         "decoder_attention_heads":6,"encoder_ffn_dim":1536,"decoder_ffn_dim":1536,"num_mel_bins":80,
         "max_source_positions":1500,"max_target_positions":448,"vocab_size":51865})"},
    {"bart-base", 139420416,
     R"({"model_type":"bart","d_model":768,"encoder_layers":6,"decoder_layers":6,"encoder_attention_heads":12,
         "decoder_attention_heads":12,"encoder_ffn_dim":3072,"decoder_ffn_dim":3072,"max_position_embeddings":1024,
         "vocab_size":50265})"},
    {"mamba-130m", 129135360,
     R"({"model_type":"mamba","hidden_size":768,"num_hidden_layers":24,"state_size":16,"conv_kernel":4,"expand":2,
         "time_step_rank":48,"vocab_size":50280,"tie_word_embeddings":true})"},
    {"falcon-mamba-7b", 7272665088,
     R"({"model_type":"falcon_mamba","hidden_size":4096,"num_hidden_layers":64,"state_size":16,"conv_kernel":4,
         "intermediate_size":8192,"expand":16,"time_step_rank":256,"vocab_size":65024,"tie_word_embeddings":false})"},
    {"olmo-1b", 1176764416,
     R"({"model_type":"olmo","hidden_size":2048,"num_hidden_layers":16,"num_attention_heads":16,
         "intermediate_size":8192,"vocab_size":50304,"tie_word_embeddings":true})"},
    {"olmoe-1b-7b", 6919161856,
     R"({"model_type":"olmoe","hidden_size":2048,"num_hidden_layers":16,"num_attention_heads":16,"num_experts":64,
         "num_experts_per_tok":8,"intermediate_size":1024,"vocab_size":50304,"tie_word_embeddings":false})"},
    {"stablelm-2-1.6b", 1644515328,
     R"({"model_type":"stablelm","hidden_size":2048,"num_hidden_layers":24,"num_attention_heads":32,
         "intermediate_size":5632,"vocab_size":100352,"use_qkv_bias":true,"tie_word_embeddings":false})"},
    {"phi-1.5", 1418270720,
     R"({"model_type":"phi","hidden_size":2048,"num_hidden_layers":24,"num_attention_heads":32,"intermediate_size":8192,
         "vocab_size":51200,"tie_word_embeddings":false})"},
    {"phi-3-medium", 13960238080,
     R"({"model_type":"phi3","hidden_size":5120,"num_hidden_layers":40,"num_attention_heads":40,
         "num_key_value_heads":10,"intermediate_size":17920,"vocab_size":32064,"tie_word_embeddings":false})"},
    {"qwen-7b", 7721324544,
     R"({"model_type":"qwen","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"kv_channels":128,
         "intermediate_size":22016,"no_bias":true,"vocab_size":151936,"tie_word_embeddings":false})"},
    {"yi-6b", 6061035520,
     R"({"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,
         "num_key_value_heads":4,"intermediate_size":11008,"vocab_size":64000,"tie_word_embeddings":false})"},
    {"command-r", 34980831232,
     R"({"model_type":"cohere","hidden_size":8192,"num_hidden_layers":40,"num_attention_heads":64,
         "num_key_value_heads":64,"intermediate_size":22528,"vocab_size":256000,"use_qk_norm":false})"},
    {"smollm2-135m", 134515008,
     R"({"model_type":"llama","hidden_size":576,"num_hidden_layers":30,"num_attention_heads":9,"num_key_value_heads":3,
         "intermediate_size":1536,"vocab_size":49152,"tie_word_embeddings":true})"},
    {"codegen-350m", 356712448,
     R"({"model_type":"codegen","n_embd":1024,"n_layer":20,"n_head":16,"vocab_size":51200,"n_positions":2048,
         "tie_word_embeddings":false})"},
    {"mistral-small-24b", 23572403200,
     R"({"architectures":["MistralForCausalLM"],"hidden_size":5120,"num_hidden_layers":40,"num_attention_heads":32,
         "num_key_value_heads":8,"head_dim":128,"intermediate_size":32768,"vocab_size":131072,
         "tie_word_embeddings":false})"},
    {"granite-3-2b", 2533531648,
     R"({"model_type":"granite","hidden_size":2048,"num_hidden_layers":40,"num_attention_heads":32,
         "num_key_value_heads":8,"intermediate_size":8192,"vocab_size":49155,"tie_word_embeddings":true})"},
};

class OtherModels : public ::testing::TestWithParam<Variant> {};

TEST_P(OtherModels, HaveTheirHubPagesCount) {
  const Llm llm = parse_llm(GetParam().config, "", GetParam().name);
  EXPECT_EQ(llm.params, GetParam().params) << GetParam().name << " off by " << llm.params - GetParam().params;
}

INSTANTIATE_TEST_SUITE_P(Hub, OtherModels, ::testing::ValuesIn(kVariants));

}  // namespace
}  // namespace plumbline::llm_variants_test
