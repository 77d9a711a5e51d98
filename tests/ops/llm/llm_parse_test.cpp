// Hand cases: fields of the spec, quantization readings, tolerant JSON, refusals with their exact message, laws.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "arch/error.hpp"
#include "ops/llm/llm.hpp"
#include "ops/llm/params.hpp"
#include "ops/mixer/attention.hpp"
#include "ops/mixer/delta_net.hpp"
#include "ops/mixer/mamba2.hpp"
#include "ops/mixer/mla.hpp"
#include "tests/ops/llm/llm_texts.hpp"

namespace plumbline::llm_parse_test {
namespace {

using namespace llm_texts;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST(ParseLlm, CountsASmallLlamaByHand) {
  const Llm llm = read(llama());
  // q and o: 64x64; k and v: 64x32; FFN 3x64x128; two norms.
  const double layer = 2.0 * 64 * 64 + 2.0 * 64 * 32 + 3.0 * 64 * 128 + 2.0 * 64;
  ASSERT_EQ(llm.main().kinds.size(), 1u);
  EXPECT_EQ(llm.main().kinds[0].params, layer);
  EXPECT_EQ(llm.params, 2 * layer + 64 + 2.0 * 100 * 64);
  EXPECT_EQ(llm.embedding_params, 6400);
  EXPECT_EQ(llm.head_params, 6400);
  EXPECT_EQ(llm.kv_elements_per_token, 2 * 2 * 2 * 16);
  EXPECT_TRUE(llm.assumptions.empty());
  const AttentionSpec& a = *llm.main().kinds[0].mixer.as<AttentionSpec>();
  EXPECT_EQ(a.qk_dim, 16);
  EXPECT_TRUE(a.causal && a.rope);
  EXPECT_FALSE(a.qkv_bias || a.out_bias);
}

TEST(Params, PartsFollowTheTextbookFormulas) {
  AttentionSpec a;
  a.q_heads = 8;
  a.kv_heads = 2;
  a.qk_dim = a.v_dim = 16;
  EXPECT_EQ(a.params(64).matrices, 2.0 * 64 * 128 + 2.0 * 64 * 32);
  EXPECT_EQ(a.params(64).vectors, 0);
  a.qkv_bias = a.out_bias = true;
  a.qk_norm = 1;
  EXPECT_EQ(a.params(64).vectors, 128 + 2 * 32 + 64 + 2 * 16);
  FfnSpec f;
  f.width = 100;
  EXPECT_EQ(ffn_params(f, 64).total(), 3.0 * 64 * 100);
  f.gated = false;
  f.bias = true;
  EXPECT_EQ(ffn_params(f, 64).matrices, 2.0 * 64 * 100);
  EXPECT_EQ(ffn_params(f, 64).vectors, 100 + 64);
  // Every weight of Llama-3.1-8B but the norms is in a matrix.
  const Llm llm = load_llm("llama-3.1-8b");
  EXPECT_EQ(layer_params(llm.main().kinds[0], llm.hidden).vectors, 2.0 * 4096);
}

TEST(ParseLlm, HeadDimBreaksTheDivision) {
  const Llm llm = load_llm("qwen3-32b");
  EXPECT_EQ(
      llm.main().kinds[0].mixer.as<AttentionSpec>()->q_heads * llm.main().kinds[0].mixer.as<AttentionSpec>()->qk_dim,
      8192);
  EXPECT_EQ(llm.hidden, 5120);
}

TEST(ParseLlm, WindowsFollowThePattern) {
  const Llm gemma = load_llm("gemma-3-1b");
  for (std::size_t i = 0; i < 26; ++i) {
    const auto& kind = gemma.main().kinds[static_cast<std::size_t>(gemma.main().order[i])];
    EXPECT_EQ(kind.mixer.as<AttentionSpec>()->window, (i + 1) % 6 == 0 ? 0 : 512) << i;
  }
  const Llm gemma2 = load_llm("gemma-2-9b");
  EXPECT_EQ(gemma2.main().kinds[static_cast<std::size_t>(gemma2.main().order[0])].mixer.as<AttentionSpec>()->window,
            4096);
  EXPECT_EQ(gemma2.main().kinds[static_cast<std::size_t>(gemma2.main().order[1])].mixer.as<AttentionSpec>()->window, 0);
  const Llm llama4 = load_llm("llama-4-scout-17b-16e");
  const auto& third = *llama4.main().kinds[static_cast<std::size_t>(llama4.main().order[3])].mixer.as<AttentionSpec>();
  EXPECT_EQ(third.window, 0);
  EXPECT_FALSE(third.rope);
  EXPECT_TRUE(llama4.main().kinds[0].mixer.as<AttentionSpec>()->chunked);
  EXPECT_EQ(llama4.main().kinds[0].mixer.as<AttentionSpec>()->window, 8192);
  EXPECT_EQ(load_llm("qwen2.5-7b").main().kinds[0].mixer.as<AttentionSpec>()->window, 0)
      << "use_sliding_window is false";
  EXPECT_EQ(load_llm("mistral-7b-v0.1").main().kinds[0].mixer.as<AttentionSpec>()->window, 4096);
}

TEST(ParseLlm, LayerTypesWinOverTheRest) {
  const Llm llm = read(llama(R"(,"layer_types":["full_attention","sliding_attention"],"sliding_window":8,
                                "sliding_window_pattern":1)"));
  ASSERT_EQ(llm.main().kinds.size(), 2u);
  EXPECT_EQ(llm.main().kinds[0].mixer.as<AttentionSpec>()->window, 0);
  EXPECT_EQ(llm.main().kinds[1].mixer.as<AttentionSpec>()->window, 8);
}

TEST(ParseLlm, MixtureOfExpertsPlacesAndWidths) {
  const Llm v3 = load_llm("deepseek-v3");
  ASSERT_EQ(v3.main().kinds.size(), 2u);
  EXPECT_EQ(v3.main().kinds[0].ffn->width, 18432);
  EXPECT_EQ(v3.main().order[2], 0);
  EXPECT_EQ(v3.main().order[3], 1);
  const FfnSpec& moe = *v3.main().kinds[1].ffn;
  EXPECT_EQ(moe.width, 0);
  EXPECT_EQ(moe.experts, 256);
  EXPECT_EQ(moe.expert_width, 2048);
  EXPECT_EQ(moe.shared_width, 2048);
  EXPECT_TRUE(moe.router_bias);
  EXPECT_EQ(load_llm("deepseek-v2").main().kinds[1].ffn->shared_width, 3072) << "two shared experts of 1536";
  ASSERT_NE(v3.main().kinds[1].mixer.as<MlaSpec>(), nullptr);
  EXPECT_EQ(v3.main().kinds[1].mixer.as<MlaSpec>()->qk_dim(), 192);
  const Llm v32 = load_llm("deepseek-v3.2");
  EXPECT_EQ(v32.main().kinds[0].mixer.as<MlaSpec>()->index.topk, 2048);
  EXPECT_EQ(v32.index_elements_per_token, 61 * 128);
}

/// LFM2-1.2B and 350M: 12288 and 6656 stand for 8192 and, rounded up to 256, 4608.
TEST(ParseLlm, BlockWidthsAreTwoThirdsOfWhatTheFileSays) {
  const auto width = [](const std::string& extra) { return read(llama(extra)).main().kinds[0].ffn->width; };
  EXPECT_EQ(width(R"(,"block_ff_dim":12288)"), 8192);
  EXPECT_EQ(width(R"(,"block_ff_dim":6656,"block_dim":64)"), 4608);
  EXPECT_EQ(width(R"(,"block_ff_dim":6656,"block_multiple_of":8)"), 4440);
  EXPECT_EQ(width(R"(,"block_ff_dim":12288,"block_ffn_dim_multiplier":1.5)"), 12288);
  EXPECT_EQ(width(R"(,"block_ff_dim":6656,"block_auto_adjust_ff_dim":false)"), 6656);
  EXPECT_THAT(refusal(llama(R"(,"block_ff_dim":6656,"block_dim":32)")),
              HasSubstr("/block_dim: expected the hidden width"));
  EXPECT_THAT(refusal(llama(R"(,"block_ff_dim":1)")), HasSubstr("/block_ff_dim: expected a feed-forward width"));
  EXPECT_THAT(refusal(llama(R"(,"block_ff_dim":9,"block_ffn_dim_multiplier":-1)")),
              HasSubstr("block_ffn_dim_multiplier"));
}

TEST(ParseLlm, HybridsAndEncodersHaveTheirParts) {
  const Llm nemotron = load_llm("nemotron-3-nano-30b-a3b");
  ASSERT_NE(nemotron.main().kinds[0].mixer.as<Mamba2Spec>(), nullptr);
  EXPECT_FALSE(nemotron.main().kinds[0].ffn);
  EXPECT_EQ(nemotron.main().kinds[0].norms, 1);
  EXPECT_EQ(nemotron.main().kinds[0].mixer.as<Mamba2Spec>()->state_dtype, DType::fp32);
  EXPECT_EQ(load_llm("nemotron-3-super-120b-a12b-nvfp4").main().kinds[1].ffn->latent, 1024);
  const Llm next = load_llm("qwen3-next-80b-a3b");
  EXPECT_NE(next.main().kinds[0].mixer.as<DeltaNetSpec>(), nullptr);
  EXPECT_TRUE(next.main().kinds[1].mixer.as<AttentionSpec>()->output_gate);
  const Llm whisper = load_llm("whisper-large-v3");
  ASSERT_EQ(whisper.stacks.size(), 2u);
  EXPECT_EQ(whisper.stacks[0].role, StackSpec::Role::decoder);
  EXPECT_NE(whisper.stacks[0].kinds[0].cross.as<CrossAttentionSpec>(), nullptr);
  EXPECT_EQ(whisper.stacks[1].fixed_tokens, 1500);
  EXPECT_EQ(load_llm("vit-base-patch16-224").main().fixed_tokens, 197);
  EXPECT_FALSE(load_llm("vit-base-patch16-224").has_head);
  EXPECT_FALSE(load_llm("bert-base-uncased").main().kinds[0].mixer.as<AttentionSpec>()->causal);
  EXPECT_TRUE(load_llm("albert-base-v1").main().shared_weights);
  EXPECT_EQ(load_llm("llava-1.5-7b").stacks[1].fixed_tokens, 577);
  EXPECT_EQ(load_llm("dit-xl-2-256").main().fixed_tokens, 256);
}

TEST(ParseLlm, NullIsAbsentAndARepeatedKeyIsRefused) {
  EXPECT_EQ(read(llama(R"(,"num_key_value_heads":null)")).main().kinds[0].mixer.as<AttentionSpec>()->kv_heads, 4);
  EXPECT_EQ(refusal(llama_text(R"(,"hidden_size":128)")), "test: /hidden_size: the key is there twice");
  EXPECT_EQ(read(llama_text(R"(,"time_step_limit":[0.0,Infinity],"x":NaN,"y":-Infinity)")).hidden, 64);
  EXPECT_EQ(read("\xEF\xBB\xBF" + llama()).hidden, 64);
  EXPECT_EQ(read(llama(R"(,"sliding_window":null)")).main().kinds[0].mixer.as<AttentionSpec>()->window, 0);
}

TEST(ParseLlm, UnknownModelsAreTakenForLlamaOrRefused) {
  const std::string keys = R"("hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":128,
                             "vocab_size":100,"tie_word_embeddings":false,"torch_dtype":"bfloat16")";
  const Llm llm = read(R"({"model_type":"newcomer",)" + keys + "}");
  EXPECT_EQ(llm.params, read(llama(R"(,"num_key_value_heads":4)")).params);
  EXPECT_THAT(llm.assumptions,
              Contains("model_type 'newcomer' is not known: read as Llama-like (RMSNorm, gated FFN, RoPE)"));
  EXPECT_EQ(refusal(R"({"model_type":"newcomer","twist_rank":4,)" + keys + "}"),
            "test: /twist_rank: a key that looks like a dimension is not known, and model_type 'newcomer' is neither");
  EXPECT_EQ(refusal(R"({"model_type":"qwen4","twist_rank":4,)" + keys + "}"),
            "test: /twist_rank: a key that looks like a dimension is not known, and model_type 'qwen4' is neither (did "
            "you mean 'qwen'?)");
  EXPECT_EQ(llm.warnings.size(), 1U);
  EXPECT_TRUE(llm.guessed);
  EXPECT_TRUE(read(llama()).warnings.empty());
  EXPECT_EQ(
      refusal(llama(R"(,"twist_rank":4)")),
      "test: /twist_rank: a key that looks like a dimension is not known; take it out of the file if it changes no "
      "operator and no weight, else write the model as a graph (docs/graphs.md)");
}

TEST(ParseLlm, RefusesNamingTheKey) {
  EXPECT_EQ(refusal(llama(R"(,"hidden_size":-64)")),
            "test: /hidden_size: expected a whole number from 1 to 2147483648, found -64");
  EXPECT_EQ(refusal(llama(R"(,"hidden_size":"64")")), "test: /hidden_size: expected a number, found \"64\"");
  EXPECT_EQ(refusal(llama(R"(,"num_hidden_layers":10001)")),
            "test: /num_hidden_layers: expected a whole number from 1 to 10000, found 10001");
  EXPECT_EQ(refusal(llama(R"(,"intermediate_size":1e300)")),
            "test: /intermediate_size: expected a whole number up to 2^53, found 1e+300");
  EXPECT_EQ(refusal(llama(R"(,"hidden_size":66)")),
            "test: /: the hidden width 66 is no multiple of the 4 query heads and there is no 'head_dim'");
  EXPECT_EQ(refusal(llama(R"(,"num_key_value_heads":3)")),
            "test: /: expected the query heads (4) to be a multiple of the KV heads, found 3 KV heads");
  EXPECT_EQ(
      refusal(llama(R"(,"layer_types":["full_attention","sliding_atention"])")),
      "test: /layer_types/1: layer kind 'sliding_atention' is not understood (did you mean 'sliding_attention'?)");
  EXPECT_EQ(refusal(llama(R"(,"num_local_experts":8)")),
            "test: /: missing experts a token: expected one of 'num_experts_per_tok', 'experts_per_token', "
            "'num_experts_per_token', 'moe_topk', 'moe_k', 'top_k_experts'");
  EXPECT_EQ(
      refusal(R"({"model_type":"llama","hiden_size":64,"vocab_size":9})"),
      "test: /hiden_size: a key that looks like a dimension is not known; take it out of the file if it changes no "
      "operator and no weight, else write the model as a graph (docs/graphs.md)");
  EXPECT_EQ(refusal(R"({"model_type":"squeezebert","hidden_size":64})"),
            "test: /model_type: models of type 'squeezebert' are not understood");
  EXPECT_EQ(refusal(R"({"_class_name":"UNet3DConditionModel","num_attention_heads":1,"attention_head_dim":8})"),
            "test: /_class_name: diffusion model 'UNet3DConditionModel' is not understood");
  EXPECT_EQ(refusal(R"({"_class_name":"UNet2DConditionModel","down_block_types":["DownBlock2D"]})"),
            "test: /down_block_types: expected [\"CrossAttnDownBlock2D\",\"CrossAttnDownBlock2D\","
            "\"CrossAttnDownBlock2D\",\"DownBlock2D\"] or [\"DownBlock2D\",\"CrossAttnDownBlock2D\","
            "\"CrossAttnDownBlock2D\"] or [\"DownBlock2D\",\"CrossAttnDownBlock2D\",\"CrossAttnDownBlock2D\","
            "\"DownBlock2D\"] or [\"CrossAttnDownBlock2D\",\"CrossAttnDownBlock2D\",\"CrossAttnDownBlock2D\"] or "
            "[\"CrossAttnDownBlock2D\",\"CrossAttnDownBlock2D\",\"DownBlock2D\"], which are understood");
  EXPECT_EQ(refusal(R"({"model_type":"t5","d_model":64,"num_heads":4,"d_kv":16,"num_layers":1,"d_ff":99,"vocab_size":9,
                        "feed_forward_proj":"relu","is_gated_act":true})"),
            "test: /is_gated_act: expected what 'feed_forward_proj' says, found true");
  EXPECT_EQ(refusal("[1]"), "test: /: expected an object with the keys of a config.json");
  EXPECT_THAT(refusal("{\"hidden_size\": }"), HasSubstr("test: not JSON"));
}

TEST(LoadLlm, NamesPathsAndUnknownNames) {
  EXPECT_EQ(load_llm("Qwen/Qwen3-8B").name, "qwen3-8b");
  EXPECT_EQ(load_llm(load_llm("gpt2").file).params, load_llm("gpt2").params);
  try {
    load_llm("lama-3.1-8b");
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_STREQ(error.what(),
                 "model 'lama-3.1-8b': expected a name under data/models or a path of a config.json (did you mean "
                 "'llama-3.1-8b'?)");
  }
  EXPECT_THROW(load_llm("/nowhere/config.json"), BadInput);
  EXPECT_THROW(load_llm(""), BadInput);
}

RC_GTEST_PROP(Laws, TwiceTheLayersTwiceTheLayerParameters, ()) {
  const auto layers = *rc::gen::inRange<int>(1, 40);
  const auto heads = *rc::gen::inRange<int>(1, 16);
  const auto width = *rc::gen::inRange<int>(1, 4000);
  const auto model = [&](int n) {
    return read(R"({"model_type":"qwen3","head_dim":32,"vocab_size":10,"hidden_size":48,"tie_word_embeddings":true,
                    "num_key_value_heads":1,"num_attention_heads":)" +
                std::to_string(heads) + R"(,"intermediate_size":)" + std::to_string(width) +
                R"(,"num_hidden_layers":)" + std::to_string(n) + "}");
  };
  const Llm one = model(layers), two = model(2 * layers);
  RC_ASSERT(stack_layer_params(two.main()) == 2.0 * stack_layer_params(one.main()));
  RC_ASSERT(two.kv_elements_per_token == 2.0 * one.kv_elements_per_token);
  RC_ASSERT(two.params - one.params == stack_layer_params(one.main()));
}

RC_GTEST_PROP(Laws, ActiveNeverAboveTotalAndLinearInTheExpertsChosen, ()) {
  const auto experts = *rc::gen::inRange<int>(2, 300);
  const auto topk = *rc::gen::inRange<int>(1, experts);
  const auto model = [&](int k) {
    return read(
        llama(R"(,"num_local_experts":)" + std::to_string(experts) + R"(,"num_experts_per_tok":)" + std::to_string(k)));
  };
  const Llm few = model(topk), more = model(topk + 1);
  const double one = 2 * 3.0 * 64 * 128;  // two layers, one expert more
  RC_ASSERT(more.active_params - few.active_params == one);
  RC_ASSERT(more.params == few.params);
  RC_ASSERT(more.active_params <= more.params);
}

/// DeepSeek's routing within groups: n_group, topk_group; V2-Lite is greedy, and Kimi has one group.
TEST(ParseLlm, ExpertsOfATokenMayBeLimitedToGroups) {
  const auto groups_of = [](const Llm& llm) {
    const FfnSpec& ffn = *llm.main().kinds.back().ffn;
    return std::pair{ffn.groups, ffn.top_groups};
  };
  EXPECT_EQ(groups_of(load_llm("deepseek-v3")), (std::pair<std::int64_t, std::int64_t>{8, 4}));
  EXPECT_EQ(groups_of(load_llm("deepseek-v2")), (std::pair<std::int64_t, std::int64_t>{8, 3}));
  for (const char* model : {"deepseek-v2-lite", "kimi-k2", "glm-4.5", "qwen3-235b-a22b"}) {
    EXPECT_EQ(groups_of(load_llm(model)), (std::pair<std::int64_t, std::int64_t>{0, 0})) << model;
  }
  const std::string experts =
      R"(,"model_type":"deepseek_v3","kv_lora_rank":16,"qk_rope_head_dim":4,"qk_nope_head_dim":8,)"
      R"("v_head_dim":8,"n_routed_experts":16,"num_experts_per_tok":4,"moe_intermediate_size":32,)"
      R"("first_k_dense_replace":0)";
  EXPECT_EQ(groups_of(read(llama(experts + R"(,"n_group":4,"topk_group":2)"))),
            (std::pair<std::int64_t, std::int64_t>{4, 2}));
  EXPECT_THAT(refusal(llama(experts + R"(,"n_group":4,"topk_group":5)")), HasSubstr("expected at most 4 groups"));
  EXPECT_THAT(refusal(llama(experts + R"(,"n_group":16,"topk_group":3)")),
              HasSubstr("expected groups of which 3 hold 4 of 16 experts"));
}

}  // namespace
}  // namespace plumbline::llm_parse_test
