// The backward pass and the optimizer.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::lower_train_test {
namespace {

double flops_of(const Graph& g, Pass pass, bool gemms) {
  return tensor_flops(g, [&](const Node& n) { return n.pass == pass && is_gemm(n) == gemms; });
}

TEST(LowerTrain, BackwardGemmsAreTwiceTheForwardOnes) {
  for (const Llm& m : all_models()) {
    for (const Fusion f : {Fusion::none, Fusion::typical, Fusion::max}) {
      const Graph g = lower(m, train(2, 256, f));
      EXPECT_DOUBLE_EQ(flops_of(g, Pass::backward, true), 2 * flops_of(g, Pass::forward, true)) << m.name;
    }
  }
}

TEST(LowerTrain, GradientGemmsHaveTheTransposedShapes) {
  const Graph g = lower(llama_8b(), train(2, 256));
  const Gemm forward = shape_of<Gemm>(g, "down_proj");
  const Gemm dx = shape_of<Gemm>(g, "down_proj.dx", Pass::backward),
             dw = shape_of<Gemm>(g, "down_proj.dw", Pass::backward);
  EXPECT_EQ(forward.m, 512);
  EXPECT_EQ((std::vector{dx.m, dx.n, dx.k}), (std::vector<std::int64_t>{512, 14336, 4096}));
  EXPECT_EQ((std::vector{dw.m, dw.n, dw.k}), (std::vector<std::int64_t>{4096, 14336, 512}));
}

TEST(LowerTrain, EveryGemmHasNamedGradients) {
  for (const Llm& m : all_models()) {
    for (const Fusion f : {Fusion::none, Fusion::typical, Fusion::max}) {
      for (const Node& n : lower(m, train(1, 300, f)).nodes) {
        if (n.pass != Pass::backward || !is_gemm(n)) continue;
        EXPECT_NE(std::string_view(n.name).find(".d"), std::string_view::npos) << m.name << ' ' << n.name;
      }
    }
  }
}

TEST(LowerTrain, FlashBackwardIsFiveProductsForTwo) {
  for (const Llm& m : {llama_8b(), deepseek_v3(), bert()}) {  // MLA: QK 192, V 128
    const Graph g = lower(m, train(2, 256));
    const LayerMixer& mixer = m.main().kinds.front().mixer;
    const auto* latent = mixer.as<MlaSpec>();
    const double qk = d(latent != nullptr ? latent->qk_dim() : mixer.as<AttentionSpec>()->qk_dim);
    const double v = d(latent != nullptr ? latent->v_dim : mixer.as<AttentionSpec>()->v_dim);
    EXPECT_DOUBLE_EQ(flops_of(g, Pass::backward, false),
                     flops_of(g, Pass::forward, false) * (3 * qk + 2 * v) / (qk + v));
  }
}

TEST(LowerTrain, BackwardRunsInReverse) {
  const Graph g = lower(mixtral(), train(1, 64));
  std::vector<std::string> forward, backward;
  for (const Segment& s : g.segments) {
    const Pass pass = g.nodes[static_cast<std::size_t>(s.first)].pass;
    if (pass == Pass::forward) forward.emplace_back(s.name);
    if (pass == Pass::backward) backward.emplace_back(s.name);
  }
  std::reverse(backward.begin(), backward.end());
  EXPECT_EQ(forward, backward);
  EXPECT_STREQ(g.segments.back().name, "optimizer");
}

TEST(LowerTrain, AdamCoversTheParameters) {
  for (const Llm& m : {llama_8b(), mixtral(), bert()}) {
    const Graph g = lower(m, train(1, 64));
    const auto& adam = shape_of<Rowwise>(g, "adamw", Pass::update);
    EXPECT_GE(d(adam.rows) * d(adam.cols), m.params);
    EXPECT_LT(d(adam.rows) * d(adam.cols), m.params + d(m.hidden) + 1) << m.name;
  }
}

TEST(LowerTrain, ElementwiseGradientsMoveWhatTheyMust) {
  const Graph g = lower(llama_8b(), train(1, 64));
  const double n = 64.0 * 14336 * 2;
  EXPECT_EQ(work(find(g, "ffn_act", Pass::backward)->op).bytes().in(units::B), 5 * n);  // dY, gate, up; d gate, d up
  const Graph eager = lower(llama_8b(), train(1, 64, Fusion::none));
  EXPECT_EQ(work(find(eager, "ffn_act", Pass::backward)->op).bytes().in(units::B), 3 * n);
  int products = 0;
  for (const Node& node : eager.nodes) {
    if (node.pass == Pass::backward && std::string_view(node.name) == "ffn_mul") ++products;
  }
  EXPECT_EQ(products, 2);
}

TEST(LowerTrain, UnfusedAttentionHasTheGradientsOfItsChain) {
  const Graph g = lower(bert(), train(8, 512, Fusion::none));
  const auto gradient = [&](const char* name) { return shape_of<Rowwise>(g, name, Pass::backward); };
  EXPECT_EQ(gradient("attn_dropout").kind, RowwiseKind::dropout_backward);
  EXPECT_EQ(gradient("attn_softmax").kind, RowwiseKind::softmax_backward);
  EXPECT_EQ(gradient("attn_scale").kind, RowwiseKind::scale);
  EXPECT_EQ(find(g, "attn_mask", Pass::backward), nullptr);  // adds a constant
  EXPECT_EQ(gradient("ffn_dropout").kind, RowwiseKind::dropout_backward);
  const double n = 8.0 * 12 * 512 * 512;
  double forward = 0, backward = 0;
  for (const char* name : {"attn_scale", "attn_mask", "attn_softmax", "attn_dropout"}) {
    forward += work(find(g, name, Pass::forward)->op).bytes().in(units::B);
    if (const Node* node = find(g, name, Pass::backward)) backward += work(node->op).bytes().in(units::B);
  }
  EXPECT_DOUBLE_EQ(forward, 17 * n + 2 * 512);
  EXPECT_DOUBLE_EQ(backward, 15 * n);
}

TEST(LowerTrain, NormsHaveTheGradientsOfTheirKind) {
  const Graph g = lower(llama_8b(), train(2, 64));
  const auto& norm = shape_of<Rowwise>(g, "ffn_norm", Pass::backward);
  EXPECT_EQ(norm.kind, RowwiseKind::rmsnorm_backward);
  EXPECT_TRUE(norm.residual);  // the gradient that passes the norm by is added
  EXPECT_EQ(work(norm).bytes().in(units::B), 4 * 128.0 * 4096 * 2 + 4096 * 2);  // dY, X, that gradient; dX; gamma
  EXPECT_EQ(shape_of<Rowwise>(lower(bert(), train(2, 64)), "ffn_norm", Pass::backward).kind, RowwiseKind::layernorm);
}

TEST(LowerTrain, CastsGoBack) {
  const Graph g = lower(llama_8b(), train(1, 64, Fusion::none));
  EXPECT_EQ(shape_of<Rowwise>(g, "loss_cast", Pass::forward).output, DType::fp32);
  EXPECT_EQ(shape_of<Rowwise>(g, "loss_cast", Pass::backward).output, DType::bf16);
}

TEST(LowerTrain, GemmsAreSixFlopsAParameterAndToken) {
  // 6 N D: for a model whose embedding is small, forward 2 N D, backward 4 N D.
  const Llm m = llama_70b();
  const double tokens = 2048, n = m.params - d(m.vocab) * d(m.hidden);
  const Graph g = lower(m, train(1, 2048));
  const double gemms = flops_of(g, Pass::forward, true) + flops_of(g, Pass::backward, true);
  EXPECT_NEAR(gemms / (6 * n * tokens), 1, 1e-4);
}

}  // namespace
}  // namespace plumbline::testing_support::lower_train_test
