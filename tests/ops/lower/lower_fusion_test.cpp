// What each fusion level launches, and that fusing never adds work.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::lower_fusion_test {
namespace {

std::vector<std::string> names(const Graph& g, std::string_view segment, Pass pass = Pass::forward) {
  std::vector<std::string> all;
  for (const Node& n : g.nodes) {
    if (n.pass == pass && segment == g.segments[static_cast<std::size_t>(n.segment)].name) all.emplace_back(n.name);
  }
  return all;
}

using Names = std::vector<std::string>;

TEST(LowerFusion, LlamaLayerAtEachLevel) {
  EXPECT_EQ(names(lower(llama_8b(), prefill(1, 64, Fusion::none)), "layer"),
            (Names{"attn_norm",    "q_proj",       "k_proj",          "v_proj",
                   "q_rope",       "k_rope",       "kv_append",       "repeat_k",
                   "repeat_v",     "attn_scores",  "attn_scale",      "attn_mask",
                   "attn_softmax", "attn_context", "o_proj",          "attn_residual_add",
                   "ffn_norm",     "gate_proj",    "up_proj",         "ffn_act",
                   "ffn_mul",      "down_proj",    "ffn_residual_add"}));
  const Names typical{"attn_norm", "qkv_proj",     "rope",    "attention", "o_proj",
                      "ffn_norm",  "gate_up_proj", "ffn_act", "down_proj"};
  EXPECT_EQ(names(lower(llama_8b(), prefill(1, 64)), "layer"), typical);
  EXPECT_EQ(names(lower(llama_8b(), decode(1, 64)), "layer"), typical);
  EXPECT_EQ(names(lower(llama_8b(), decode(1, 64, Fusion::max)), "layer"),
            (Names{"attn_norm", "qkv_proj", "attention", "o_proj", "ffn_norm", "gate_up_proj", "down_proj"}));
}

TEST(LowerFusion, MoeLayerAtEachLevel) {
  const Names head{"attn_norm", "qkv_proj"};
  const Names typical = names(lower(mixtral(), decode(4, 64)), "moe_layer");
  EXPECT_EQ(Names(typical.end() - 7, typical.end()), (Names{"router", "router_topk", "moe_permute", "experts_gate_up",
                                                            "experts_act", "experts_down", "moe_combine"}));
  const Names max = names(lower(mixtral(), decode(4, 64, Fusion::max)), "moe_layer");
  EXPECT_EQ(Names(max.end() - 5, max.end()),
            (Names{"router", "router_topk", "experts_gate_up", "experts_down", "moe_combine"}));
}

TEST(LowerFusion, BertTrainingPaysForScaleMaskSoftmaxAndDropoutOnlyUnfused) {
  const Graph none = lower(bert(), train(8, 512, Fusion::none)), fused = lower(bert(), train(8, 512));
  for (const char* name : {"attn_scale", "attn_mask", "attn_softmax", "attn_dropout"}) {
    ASSERT_NE(find(none, name), nullptr) << name;
    EXPECT_EQ(shape_of<Rowwise>(none, name).rows, 8 * 12 * 512);
    EXPECT_EQ(shape_of<Rowwise>(none, name).cols, 512);
    EXPECT_EQ(find(fused, name), nullptr) << name;
  }
  // Inference drops nothing.
  EXPECT_EQ(find(lower(bert(), prefill(8, 512, Fusion::none)), "attn_dropout"), nullptr);
}

TEST(LowerFusion, PrefillRopeWritesTheCacheUnlessAttentionAppends) {
  const Graph typical = lower(llama_8b(), prefill(2, 64)), max = lower(llama_8b(), prefill(2, 64, Fusion::max));
  EXPECT_EQ(shape_of<AttentionPrefill>(typical, "attention").append, 0);
  EXPECT_EQ(shape_of<Rope>(typical, "rope").heads, 32 + 2 * 8);  // V is moved too
  EXPECT_EQ(shape_of<AttentionPrefill>(max, "attention").append, 1);
  EXPECT_EQ(shape_of<Rope>(lower(llama_8b(), train(2, 64)), "rope").heads, 32 + 8);  // no cache in training
  EXPECT_EQ(shape_of<AttentionPrefill>(lower(llama_8b(), train(2, 64, Fusion::max)), "attention").append, 0);
}

/// TensorRT-LLM's: the same matrix work and keys, no node that rotates or writes the cache, unless heads are normed.
TEST(LowerFusion, AStackWhoseAttentionRotatesHasNoNodeBeforeIt) {
  const auto rotating = [](Workload w) {
    w.attention_rotates = true;
    return w;
  };
  for (const Workload& w : {prefill(2, 64), decode(2, 64)}) {
    const Graph g = lower(llama_8b(), rotating(w)), apart = lower(llama_8b(), w);
    EXPECT_EQ(find(g, "rope"), nullptr);
    EXPECT_EQ(g.nodes.size() + 1, apart.nodes.size());
    EXPECT_EQ(tensor_flops(g), tensor_flops(apart));
  }
  EXPECT_EQ(shape_of<AttentionPrefill>(lower(llama_8b(), rotating(prefill(2, 64))), "attention").append, 1);
  EXPECT_EQ(shape_of<AttentionDecode>(lower(llama_8b(), rotating(decode(2, 64))), "attention").append, -1);
  const Graph latent = lower(deepseek_v3(), rotating(prefill(2, 64)));
  EXPECT_EQ(shape_of<AttentionPrefill>(latent, "attention").append, 1);
  for (const char* name : {"rope", "kv_append", "k_concat"}) EXPECT_EQ(find(latent, name), nullptr) << name;
  EXPECT_EQ(find(lower(deepseek_v3(), rotating(decode(2, 64))), "rope"), nullptr);
  // without a cache, and where the fusion is another one, as ever
  EXPECT_NE(find(lower(llama_8b(), rotating(train(2, 64))), "rope"), nullptr);
  EXPECT_NE(find(lower(llama_8b(), rotating(prefill(1, 64, Fusion::none))), "kv_append"), nullptr);
}

TEST(LowerFusion, NormedHeadsAreRotatedInTheLaunchThatNormsThem) {
  AttentionSpec normed = gqa(32, 8, 128);
  normed.qk_norm = 1;
  const Llm qwen = model("qwen3-8b", 4096, 151936, {{layer(normed, gated(12288)), 36}});
  Workload w = prefill(2, 64);
  EXPECT_NE(find(lower(qwen, w), "qk_norm"), nullptr);
  w.attention_rotates = true;
  const Graph g = lower(qwen, w);
  EXPECT_EQ(find(g, "qk_norm"), nullptr);
  EXPECT_EQ(shape_of<Rope>(g, "rope").heads, 32 + 8);  // attention moves V
  EXPECT_EQ(shape_of<AttentionPrefill>(g, "attention").append, 1);
}

TEST(LowerFusion, AddsAreFusedIntoNorms) {
  EXPECT_TRUE(shape_of<Rowwise>(lower(llama_8b(), decode(2, 64)), "attn_norm").residual);
  EXPECT_FALSE(shape_of<Rowwise>(lower(llama_8b(), decode(2, 64, Fusion::none)), "attn_norm").residual);
  EXPECT_FALSE(shape_of<Rowwise>(lower(llama_8b(), decode(2, 64)), "final_norm").residual);
}

TEST(LowerFusion, SandwichNormsStandBehindEachPart) {
  const Graph g = lower(gemma2(), decode(2, 64));
  EXPECT_NE(find(g, "attn_post_norm"), nullptr);
  EXPECT_NE(find(g, "ffn_post_norm"), nullptr);
  EXPECT_EQ(find(lower(llama_8b(), decode(2, 64)), "attn_post_norm"), nullptr);
}

TEST(LowerFusion, FusingNeverAddsBytesOrLaunchesAndKeepsMatrixWork) {
  for (const Llm& m : all_models()) {
    for (int phase = 0; phase < 3; ++phase) {
      if (phase == 1 && !is_decoder(m)) continue;
      const auto at = [&](Fusion f) {
        return lower(m, phase == 0 ? prefill(2, 600, f) : phase == 1 ? decode(3, 600, f) : train(1, 200, f));
      };
      const Graph none = at(Fusion::none), typical = at(Fusion::typical), max = at(Fusion::max);
      EXPECT_GE(total_bytes(none), total_bytes(typical)) << m.name << phase;
      EXPECT_GE(total_bytes(typical), total_bytes(max)) << m.name << phase;
      EXPECT_GE(launches(none), launches(typical)) << m.name << phase;
      EXPECT_GE(launches(typical), launches(max)) << m.name << phase;
      EXPECT_DOUBLE_EQ(tensor_flops(typical), tensor_flops(max)) << m.name << phase;
      EXPECT_DOUBLE_EQ(tensor_flops(none, is_weight_gemm), tensor_flops(typical, is_weight_gemm)) << m.name << phase;
      // Eager attention multiplies masked pairs too. (In training flash attention recomputes scores instead.)
      const double floor = phase < 2 ? tensor_flops(typical) * (1 - 1e-12) : 0;
      EXPECT_GE(tensor_flops(none), floor) << m.name << phase;
    }
  }
}

TEST(LowerFusion, WithoutAMaskTensorWorkIsTheSameAtAllLevels) {
  for (const Llm& m : {bert(), vit(), flux()}) {
    EXPECT_DOUBLE_EQ(tensor_flops(lower(m, prefill(2, 256, Fusion::none))), tensor_flops(lower(m, prefill(2, 256))));
  }
  EXPECT_DOUBLE_EQ(tensor_flops(lower(llama_8b(), decode(2, 256, Fusion::none))),
                   tensor_flops(lower(llama_8b(), decode(2, 256))));
}

}  // namespace
}  // namespace plumbline::testing_support::lower_fusion_test
