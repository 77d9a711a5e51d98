// Families whose files say things in keys of their own, as their hub pages have them: parameters and arithmetic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ops/mixer/attention.hpp"
#include "tests/ops/llm/llm_texts.hpp"
#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::llm_hub_test {
namespace {

using llm_texts::read;
using llm_texts::refusal;
using ::testing::HasSubstr;
using testing_support::multiplied_weights;

struct Published {
  const char* name;
  double params;
  const char* config;
};

// Counts of the checkpoints; of RWKV-7 those of arXiv 2503.14456.
const Published kExact[] = {
    {"dbrx", 131596523520,
     R"({"model_type":"dbrx","architectures":["DbrxForCausalLM"],"attn_config":{"clip_qkv":8,"kv_n_heads":8,
         "model_type":"","rope_theta":500000},"d_model":6144,"ffn_config":{"ffn_hidden_size":10752,"model_type":"",
         "moe_jitter_eps":0,"moe_loss_weight":0.05,"moe_num_experts":16,"moe_top_k":4},"max_seq_len":32768,
         "n_heads":48,"n_layers":40,"tie_word_embeddings":false,"torch_dtype":"bfloat16","vocab_size":100352})"},
    {"ling-lite", 16801974272,
     R"({"model_type":"bailing_moe","architectures":["BailingMoeForCausalLM"],"first_k_dense_replace":0,
         "hidden_act":"silu","hidden_size":2048,"intermediate_size":5632,"max_position_embeddings":16384,
         "max_window_layers":28,"moe_intermediate_size":1408,"norm_head":true,"norm_softmax":false,
         "norm_topk_prob":true,"num_attention_heads":16,"num_experts":64,"num_experts_per_tok":6,
         "num_hidden_layers":28,"num_key_value_heads":4,"num_shared_experts":2,"rms_norm_eps":1e-06,
         "rope_theta":600000,"sliding_window":4096,"tie_word_embeddings":false,"torch_dtype":"bfloat16",
         "use_bias":false,"use_qkv_bias":false,"use_sliding_window":false,"vocab_size":126464,"head_dim":128})"},
    {"ling-mini-2", 16255643392,
     R"({"model_type":"bailing_moe","architectures":["BailingMoeV2ForCausalLM"],"first_k_dense_replace":1,
         "hidden_act":"silu","hidden_size":2048,"intermediate_size":5120,"max_position_embeddings":32768,
         "max_window_layers":20,"moe_intermediate_size":512,"norm_topk_prob":true,"num_attention_heads":16,
         "num_experts":256,"num_experts_per_tok":8,"num_hidden_layers":20,"num_key_value_heads":4,
         "num_shared_experts":1,"partial_rotary_factor":0.5,"use_bias":false,"use_qkv_bias":false,
         "vocab_size":157184,"head_dim":128,"tie_word_embeddings":false,"torch_dtype":"bfloat16","use_rmsnorm":true,
         "rotary_dim":64,"moe_router_enable_expert_bias":true,"routed_scaling_factor":2.5,"n_group":8,"topk_group":4,
         "use_qk_norm":true,"score_function":"sigmoid","moe_shared_expert_intermediate_size":512,
         "num_nextn_predict_layers":0,"router_dtype":"fp32"})"},
    {"hunyuan-a13b", 80393183232,
     R"({"model_type":"hunyuan_v1_moe","architectures":["HunYuanMoEV1ForCausalLM"],"add_classification_head":false,
         "attention_bias":false,"attention_head_dim":128,"cla_share_factor":2,"class_num":0,"dense_list":[4096,0],
         "enable_attention_fp32_softmax":false,"enable_lm_head_fp32":true,"head_dim":128,"hidden_act":"silu",
         "hidden_size":4096,"intermediate_size":3072,"max_position_embeddings":32768,"mlp_bias":false,
         "moe_drop_tokens":false,"moe_intermediate_size":[3072,3072,3072,3072,3072,3072,3072,3072,3072,3072,3072,
         3072,3072,3072,3072,3072,3072,3072,3072,3072,3072,3072,3072,3072,3072,3072,3072,3072,3072,3072,3072,3072],
         "moe_layer_num_skipped":0,"moe_random_routing_dropped_token":false,"moe_topk":[8,8,8,8,8,8,8,8,8,8,8,8,8,8,
         8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8],"norm_topk_prob":true,"norm_type":"rms","num_attention_heads":32,
         "num_experts":64,"num_hidden_layers":32,"num_key_value_heads":8,"num_shared_expert":[1,1,1,1,1,1,1,1,1,1,1,
         1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"pool_type":"last","position_embedding_xdrope":false,
         "routed_scaling_factor":1.0,"sep_token_id":127962,"tie_word_embeddings":true,"topk_group":0,
         "unused_token_id":0,"use_cla":false,"use_mixed_mlp_moe":true,"use_qk_norm":true,"use_rotary_pos_emb":true,
         "use_mla":false,"v_head_dim":0,"norm_head":false,"vocab_size":128167,"torch_dtype":"bfloat16"})"},
    {"openelm-270m", 271527168,
     R"({"model_type":"openelm","architectures":["OpenELMForCausalLM"],"activation_fn_name":"swish",
         "ffn_dim_divisor":256,"ffn_multipliers":[0.5,0.73,0.97,1.2,1.43,1.67,1.9,2.13,2.37,2.6,2.83,3.07,3.3,3.53,
         3.77,4.0],"ffn_with_glu":true,"head_dim":64,"max_context_length":2048,"model_dim":1280,
         "normalization_layer_name":"rms_norm","normalize_qk_projections":true,"num_gqa_groups":4,"num_kv_heads":[3,
         3,3,3,3,4,4,4,4,4,4,4,5,5,5,5],"num_query_heads":[12,12,12,12,12,16,16,16,16,16,16,16,20,20,20,20],
         "num_transformer_layers":16,"qkv_multipliers":[0.5,1.0],"rope_freq_constant":10000,"rope_max_length":4096,
         "share_input_output_layers":true,"torch_dtype":"float32","vocab_size":32000})"},
    {"rwkv7-421m", 450767872,
     R"({"model_type":"rwkv7","architectures":["RWKV7ForCausalLM"],"a_low_rank_dim":64,"attn_mode":"chunk",
         "decay_low_rank_dim":64,"fuse_cross_entropy":true,"fuse_norm":false,"gate_low_rank_dim":128,"head_dim":64,
         "hidden_act":"sqrelu","hidden_ratio":4.0,"hidden_size":1024,"intermediate_size":4096,
         "max_position_embeddings":2048,"norm_bias":true,"norm_eps":1e-05,"norm_first":true,"num_heads":16,
         "num_hidden_layers":24,"tie_word_embeddings":false,"v_low_rank_dim":32,"vocab_size":65536,
         "torch_dtype":"float32"})"},
    {"rwkv7-1.5b", 1527404544,
     R"({"model_type":"rwkv7","architectures":["RWKV7ForCausalLM"],"a_low_rank_dim":96,"attn_mode":"chunk",
         "decay_low_rank_dim":96,"fuse_cross_entropy":true,"fuse_norm":false,"gate_low_rank_dim":256,"head_dim":64,
         "hidden_act":"sqrelu","hidden_ratio":4.0,"hidden_size":2048,"intermediate_size":8192,
         "max_position_embeddings":2048,"norm_bias":true,"norm_eps":1e-05,"norm_first":true,"num_heads":32,
         "num_hidden_layers":24,"tie_word_embeddings":false,"v_low_rank_dim":64,"vocab_size":65536,
         "torch_dtype":"float32"})"},
    {"rwkv7-2.9b", 2947735040,
     R"({"model_type":"rwkv7","architectures":["RWKV7ForCausalLM"],"a_low_rank_dim":96,"attn_mode":"chunk",
         "decay_low_rank_dim":96,"fuse_cross_entropy":true,"fuse_norm":false,"gate_low_rank_dim":320,"head_dim":64,
         "hidden_act":"sqrelu","hidden_ratio":4.0,"hidden_size":2560,"intermediate_size":10240,
         "max_position_embeddings":2048,"norm_bias":true,"norm_eps":1e-05,"norm_first":true,"num_heads":40,
         "num_hidden_layers":32,"tie_word_embeddings":false,"v_low_rank_dim":64,"vocab_size":65536,
         "torch_dtype":"float32"})"},
};

// Rounded figures of papers and model cards.
const Published kRounded[] = {
    {"step3-text", 3.16e+11,
     R"({"model_type":"step3_vl","architectures":["Step3VLForConditionalGeneration"],
         "text_config":{"architectures":["Step3TextForCausalLM"],"hidden_size":7168,"intermediate_size":18432,
         "num_attention_heads":64,"num_attention_groups":1,"num_hidden_layers":61,"max_seq_len":65536,
         "vocab_size":128815,"rms_norm_eps":1e-05,"moe_intermediate_size":5120,"moe_num_experts":48,"moe_top_k":3,
         "rope_theta":500000,"share_expert_dim":5120,"share_q_dim":2048,"head_dim":256,"norm_expert_weight":false,
         "moe_layers_enum":"4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,)"
     R"(36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59","torch_dtype":"bfloat16",
         "model_type":"step3_text"},"vocab_size":128815,"tie_word_embeddings":false})"},
    {"minimax-text-01", 4.56e+11,
     R"({"model_type":"minimax_text_01","architectures":["MiniMaxText01ForCausalLM"],"attn_type_list":[0,0,0,0,0,0,
         0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,
         0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1],"head_dim":128,"hidden_act":"silu","hidden_size":6144,
         "intermediate_size":9216,"max_position_embeddings":10240000,"num_attention_heads":64,
         "num_experts_per_tok":2,"num_hidden_layers":80,"num_key_value_heads":8,"num_local_experts":32,
         "postnorm":true,"rms_norm_eps":1e-05,"rope_theta":10000000,"rotary_dim":64,"router_jitter_noise":0.0,
         "shared_intermediate_size":0,"shared_moe_mode":"sigmoid","tie_word_embeddings":false,"vocab_size":200064})"},
    {"kimi-linear-48b", 49122681728,
     R"({"model_type":"kimi_linear","architectures":["KimiLinearForCausalLM"],"hidden_size":2304,
         "intermediate_size":9216,"moe_intermediate_size":1024,"kv_lora_rank":512,"qk_nope_head_dim":128,
         "qk_rope_head_dim":64,"v_head_dim":128,"mla_use_nope":true,"num_attention_heads":32,
         "num_key_value_heads":32,"num_hidden_layers":27,"num_experts":256,"num_experts_per_token":8,
         "num_shared_experts":1,"first_k_dense_replace":1,"moe_layer_freq":1,
         "linear_attn_config":{"full_attn_layers":[4,8,12,16,20,24,27],"head_dim":128,"kda_layers":[1,2,3,5,6,7,9,10,
         11,13,14,15,17,18,19,21,22,23,25,26],"num_heads":32,"short_conv_kernel_size":4},"moe_renormalize":true,
         "moe_router_activation_func":"sigmoid","use_grouped_topk":true,"num_expert_group":1,"topk_group":1,
         "tie_word_embeddings":false,"vocab_size":163840,"head_dim":72,"routed_scaling_factor":2.446,
         "model_max_length":1048576,"num_nextn_predict_layers":0,"rope_theta":10000.0,"hidden_act":"silu",
         "dtype":"bfloat16"})"},
    {"arctic", 4.8e+11,
     R"({"model_type":"arctic","architectures":["ArcticForCausalLM"],"hidden_act":"silu","hidden_size":7168,
         "intermediate_size":4864,"max_position_embeddings":4096,"moe_eval_capacity_factor":1,
         "moe_layer_frequency":1,"moe_min_capacity":0,"moe_token_dropping":false,"moe_train_capacity_factor":1,
         "num_attention_heads":56,"num_experts_per_tok":2,"num_hidden_layers":35,"num_key_value_heads":8,
         "num_local_experts":128,"parallel_attn_mlp_res":true,"rms_norm_eps":1e-05,"rope_theta":10000,
         "tie_word_embeddings":false,"use_residual":true,"vocab_size":32000})"},
    {"rwkv6-1.6b", 1.6e+09,
     R"({"model_type":"rwkv6","architectures":["Rwkv6ForCausalLM"],"attention_hidden_size":2048,"head_size":64,
         "head_size_divisor":8,"hidden_size":2048,"layer_norm_epsilon":1e-05,"model_version":"6_0",
         "num_hidden_layers":24,"rescale_every":6,"tie_word_embeddings":false,"vocab_size":65536})"},
    {"rwkv6-7b", 7.63e+09,
     R"({"model_type":"rwkv6","architectures":["Rwkv6ForCausalLM"],"attention_hidden_size":4096,"head_size":64,
         "head_size_divisor":8,"hidden_size":4096,"layer_norm_epsilon":1e-05,"model_version":"6_0",
         "num_hidden_layers":32,"rescale_every":6,"tie_word_embeddings":false,"vocab_size":65536})"},
    {"rwkv5-1.6b", 1.58e+09,
     R"({"model_type":"rwkv5","architectures":["RwkvForCausalLM"],"attention_hidden_size":2048,"head_size":64,
         "head_size_divisor":8,"hidden_size":2048,"layer_norm_epsilon":1e-05,"model_version":"5_2",
         "num_hidden_layers":24,"num_attention_heads":64,"rescale_every":6,"tie_word_embeddings":false,
         "vocab_size":65536})"},
    {"rwkv5-7b", 7.52e+09,
     R"({"model_type":"rwkv5","architectures":["RwkvForCausalLM"],"attention_hidden_size":4096,"head_size":64,
         "head_size_divisor":8,"hidden_size":4096,"layer_norm_epsilon":1e-05,"model_version":"5_2",
         "num_hidden_layers":32,"num_attention_heads":64,"rescale_every":6,"tie_word_embeddings":false,
         "vocab_size":65536})"},
};

void expect_arithmetic(const Published& model, const Llm& llm) {
  const double share = multiplied_weights(llm, llm.main());
  EXPECT_LE(share, 1 + 1e-9) << model.name;
  EXPECT_GE(share, 0.985) << model.name;
}

TEST(Hub, CheckpointsHaveTheirParameters) {
  for (const Published& model : kExact) {
    const Llm llm = read(model.config);
    EXPECT_EQ(llm.params, model.params) << model.name << " off by " << llm.params - model.params;
    EXPECT_TRUE(llm.warnings.empty()) << model.name;
    expect_arithmetic(model, llm);
  }
}

TEST(Hub, ModelsHaveTheirPublishedSize) {
  for (const Published& model : kRounded) {
    const Llm llm = read(model.config);
    EXPECT_NEAR(llm.params / model.params, 1, 0.005) << model.name << ": " << llm.params;
    EXPECT_TRUE(llm.warnings.empty()) << model.name;
    expect_arithmetic(model, llm);
  }
}

/// Nemotron-NAS: parts that a block lacks, and sizes of its own.
TEST(Hub, SearchedNetworksHaveABlockALayer) {
  const std::string file = R"({"model_type":"nemotron-nas","hidden_size":768,"num_attention_heads":12,"vocab_size":100,
      "num_hidden_layers":3,"tie_word_embeddings":false,"torch_dtype":"bfloat16","block_configs":[
      {"attention":{"n_heads_in_group":4},"ffn":{"ffn_mult":1.5}},
      {"attention":{"no_op":true},"ffn":{"ffn_mult":0.9}},
      {"attention":{"n_heads_in_group":2},"ffn":{"no_op":true}}]})";
  const Llm llm = read(file);
  const StackSpec& stack = llm.main();
  ASSERT_EQ(stack.order.size(), 3U);
  const LayerSpec &whole = stack.kinds[0], &mlp = stack.kinds[1], &attention = stack.kinds[2];
  EXPECT_EQ(whole.mixer.as<AttentionSpec>()->kv_heads, 3);
  EXPECT_EQ(whole.ffn->width, 768);  // 2/3 x 1.5 x 768
  EXPECT_FALSE(mlp.mixer);
  EXPECT_EQ(mlp.ffn->width, 512);  // 460 rounded up to units of 256
  EXPECT_EQ(attention.mixer.as<AttentionSpec>()->kv_heads, 6);
  EXPECT_FALSE(attention.ffn.has_value());
  // By hand: q and o 2 x 768^2, k and v 2 x 768 x 64 a KV head; three matrices; a norm a part; final norm; two tables.
  const double h = 768, square = h * h;
  EXPECT_EQ(llm.params, 2 * square + 6 * h * 64 + 3 * h * 768 + 2 * h + 3 * h * 512 + h + 2 * square + 12 * h * 64 + h +
                            h + 200 * h);
  expect_arithmetic({"searched", 0, ""}, llm);
}

/// Hunyuan-Large: of two layers the second reads the first one's keys and values.
TEST(Hub, LayersShareACacheAcross) {
  const std::string file = R"({"model_type":"hunyuan","hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,
      "num_hidden_layers":4,"vocab_size":100,"intermediate_size":128,"num_experts":4,"moe_topk":1,"num_shared_expert":1,
      "use_mixed_mlp_moe":true,"tie_word_embeddings":true,"torch_dtype":"bfloat16","cla_share_factor":2,"use_cla":)";
  const Llm own = read(file + "false}"), shared = read(file + "true}");
  EXPECT_EQ(shared.kv_elements_per_token, own.kv_elements_per_token / 2);
  EXPECT_EQ(own.params - shared.params, 2 * 2 * 64 * 32);  // keys and values of two layers
}

TEST(Hub, WhatIsNotUnderstoodIsRefusedByItsKey) {
  const std::string searched = R"({"model_type":"nemotron-nas","hidden_size":768,"num_attention_heads":12,
      "vocab_size":100,"num_hidden_layers":1,"block_configs":[)";
  EXPECT_THAT(refusal(searched + R"({"attention":{"replace_with_linear":true},"ffn":{"ffn_mult":1}}]})"),
              HasSubstr("/block_configs/0/attention"));
  EXPECT_THAT(refusal(searched + R"({"attention":{"n_heads_in_group":4},"ffn":{"ffn_mult":1e300}}]})"),
              HasSubstr("feed-forward width"));
  EXPECT_THAT(refusal(searched + "]}"), HasSubstr("expected one entry a layer"));
  EXPECT_THAT(refusal(R"({"model_type":"hunyuan_v1_moe","moe_topk":[1,2]})"), HasSubstr("/moe_topk/1"));
  EXPECT_THAT(refusal(R"({"model_type":"step3_text","num_hidden_layers":4,"moe_layers_enum":"1,7"})"),
              HasSubstr("there is no layer 7"));
  EXPECT_THAT(refusal(R"({"model_type":"openelm","model_dim":64,"num_transformer_layers":2,"ffn_multipliers":[1.0]})"),
              HasSubstr("/ffn_multipliers"));
}

/// EmbeddingGemma: a decoder's layers that see both sides.
TEST(Hub, BidirectionalAttentionIsNotCausal) {
  const Llm llm = read(R"({"model_type":"gemma3_text","hidden_size":64,"num_attention_heads":4,"num_key_value_heads":1,
      "head_dim":16,"num_hidden_layers":2,"vocab_size":100,"intermediate_size":128,"use_bidirectional_attention":true,
      "layer_types":["full_attention","full_attention"],"torch_dtype":"bfloat16","tie_word_embeddings":true})");
  EXPECT_FALSE(llm.main().kinds[0].mixer.as<AttentionSpec>()->causal);
}

}  // namespace
}  // namespace plumbline::llm_hub_test
