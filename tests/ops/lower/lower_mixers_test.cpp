// Widths of latent attention, of routed experts and of eager attention, where two of them could be mistaken.
#include <gtest/gtest.h>

#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::lower_mixers_test {
namespace {

TEST(LowerMla, OneRotaryKeyServesAllHeads) {
  for (const Workload& w : {prefill(2, 100), decode(2, 100)}) {
    const Rope rope = shape_of<Rope>(lower(deepseek_v3(), w), "rope");
    EXPECT_EQ(rope.heads, 128 + 1);
    EXPECT_EQ(rope.head_dim, 64);
    EXPECT_EQ(rope.tokens, w.phase == Phase::decode ? 2 : 200);
  }
}

/// GLM-5: 192 of a head's width score without rotation, its values are 256 wide.
Llm uneven_mla() {
  MlaSpec a = mla();
  a.nope_dim = 192;
  a.v_dim = 256;
  return model("uneven", 7168, 129280, {{layer(a, gated(18432)), 3}});
}

TEST(LowerMla, TheQueryAbsorbsTheKeysHalfAndTheResultTheValues) {
  const Graph g = lower(uneven_mla(), decode(4, 1000));
  const auto& absorb = shape_of<Gemm>(g, "q_absorb");
  EXPECT_EQ((std::vector{absorb.m, absorb.n, absorb.k, absorb.batch}), (std::vector<std::int64_t>{4, 512, 192, 128}));
  const auto& up = shape_of<Gemm>(g, "v_up");
  EXPECT_EQ((std::vector{up.m, up.n, up.k, up.batch}), (std::vector<std::int64_t>{4, 256, 512, 128}));
  EXPECT_EQ(shape_of<Gemm>(lower(uneven_mla(), prefill(1, 100)), "kv_b_proj").n, 128 * (192 + 256));
}

TEST(LowerMoe, FewRowsKeepTheFormOfTheUpProjection) {
  const auto down = [](std::int64_t batch) {
    return shape_of<GroupedGemm>(lower(mixtral(), decode(batch, 100)), "experts_down");
  };
  EXPECT_EQ((std::vector{down(15).tokens, down(15).topk}), (std::vector<std::int64_t>{15, 2}));
  EXPECT_EQ((std::vector{down(16).tokens, down(16).topk}), (std::vector<std::int64_t>{32, 1}));  // 4 rows an expert
  EXPECT_EQ((std::vector{down(64).n, down(64).k}), (std::vector<std::int64_t>{4096, 14336}));
}

TEST(LowerMoe, LatentExpertsAreCombinedInTheirOwnWidth) {
  FfnSpec f = moe(64, 4, 1024);
  f.latent = 512;
  const Graph g = lower(model("latent", 2048, 32000, {{layer(gqa(16, 2, 128), f), 2}}), prefill(1, 300));
  EXPECT_EQ(shape_of<Gemm>(g, "latent_down").n, 512);
  EXPECT_EQ(shape_of<MoePermute>(g, "moe_permute").cols, 512);
  EXPECT_EQ(shape_of<MoePermute>(g, "moe_combine").cols, 512);
  EXPECT_EQ(shape_of<GroupedGemm>(g, "experts_down").n, 512);
  const auto& up = shape_of<Gemm>(g, "latent_up");
  EXPECT_EQ((std::vector{up.n, up.k}), (std::vector<std::int64_t>{2048, 512}));
}

TEST(LowerAttention, EagerCodeRepeatsKeysAndValuesEachInItsWidth) {
  AttentionSpec a = gqa(16, 2, 192);
  a.v_dim = 128;
  const Graph g = lower(model("uneven", 2048, 32000, {{layer(a, gated(8192)), 2}}), prefill(3, 100, Fusion::none));
  const auto &k = shape_of<Rowwise>(g, "repeat_k"), &v = shape_of<Rowwise>(g, "repeat_v");
  EXPECT_EQ((std::vector{k.rows, k.cols}), (std::vector<std::int64_t>{3 * 16 * 100, 192}));
  EXPECT_EQ((std::vector{v.rows, v.cols}), (std::vector<std::int64_t>{3 * 16 * 100, 128}));
}

TEST(LowerAttention, GatesOfEagerCodeAreSigmoids) {
  const Graph g = lower(qwen3_next(), prefill(1, 100, Fusion::none));
  const auto& gate = shape_of<Rowwise>(g, "gate_act");
  bool sigmoid = false;
  for (const Node& n : g.nodes) {
    const auto* row = std::get_if<Rowwise>(&n.op);
    sigmoid = sigmoid || (row != nullptr && row->kind == RowwiseKind::sigmoid && row->cols == 16 * 256);
  }
  EXPECT_TRUE(sigmoid);
  EXPECT_EQ(gate.kind, RowwiseKind::silu);  // the delta net's, of its first layer: norm(y) x silu(z)
}

TEST(LowerFfn, EachActivationHasItsKernel) {
  const auto kind = [](Activation activation) {
    FfnSpec f = plain(8192);
    f.activation = activation;
    return shape_of<Rowwise>(lower(model("plain", 2048, 32000, {{layer(gqa(16, 2, 128), f), 2}}), prefill(1, 64)),
                             "ffn_act")
        .kind;
  };
  EXPECT_EQ(kind(Activation::silu), RowwiseKind::silu);
  EXPECT_EQ(kind(Activation::gelu), RowwiseKind::gelu);
  EXPECT_EQ(kind(Activation::relu), RowwiseKind::relu);
  EXPECT_EQ(kind(Activation::relu2), RowwiseKind::squared_relu);  // Nemotron
}

TEST(LowerRoles, SayWhatTheBackwardPassMustKnow) {
  const Graph g = lower(llama_8b(), train(1, 64, Fusion::none));
  EXPECT_EQ(find(g, "attn_scores")->role, NodeRole::scores);
  EXPECT_EQ(find(g, "attn_context")->role, NodeRole::context);
  EXPECT_EQ(find(g, "ffn_mul")->role, NodeRole::product);
  EXPECT_EQ(find(g, "qkv_proj"), nullptr);
  EXPECT_EQ(find(g, "q_proj")->role, NodeRole::plain);
  EXPECT_NE(find(g, "attn_scores.dq", Pass::backward), nullptr);
  EXPECT_NE(find(g, "attn_context.dv", Pass::backward), nullptr);
  const Graph fused = lower(llama_8b(), train(1, 64));
  EXPECT_EQ(find(fused, "loss")->role, NodeRole::loss);
  EXPECT_EQ(find(fused, "loss", Pass::backward), nullptr);  // its forward kernel writes the gradient
}

}  // namespace
}  // namespace plumbline::testing_support::lower_mixers_test
