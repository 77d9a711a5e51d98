// The backward pass and the optimizer.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "arch/error.hpp"
#include "ops/graph/exchange.hpp"
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

/// What products add to begins as zeros: written once an iteration, in the type of the gradients.
TEST(LowerTrain, GradientsBeginAsZeros) {
  for (const std::int64_t micro : {0, 1}) {
    Workload w = train(4, 256);
    w.training.micro_batch = micro;
    const Graph g = lower(llama_8b(), w);
    const Node* zero = find(g, "zero_grad", Pass::update);
    ASSERT_NE(zero, nullptr);
    EXPECT_EQ(zero->count, 1);
    const auto& op = std::get<CustomOp>(zero->op);
    EXPECT_EQ(op.read, Bytes{});
    EXPECT_EQ(op.write, g.memory.gradients);
    EXPECT_TRUE(shape_of<Gemm>(g, "down_proj.dw", Pass::backward).accumulate);
  }
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
  EXPECT_FALSE(norm.residual) << "the gradient that passes the norm by is added apart";
  EXPECT_EQ(work(norm).bytes().in(units::B), 3 * 128.0 * 4096 * 2 + 4096 * 2);  // dY, X; dX; gamma
  EXPECT_EQ(shape_of<Rowwise>(g, "ffn_residual_add", Pass::forward).kind, RowwiseKind::add);
  EXPECT_EQ(shape_of<Rowwise>(g, "ffn_residual_add", Pass::backward).kind, RowwiseKind::add);
  const Graph most = lower(llama_8b(), train(2, 64, Fusion::max));
  const auto& fused = shape_of<Rowwise>(most, "ffn_norm", Pass::backward);
  EXPECT_TRUE(fused.residual);
  EXPECT_EQ(work(fused).bytes().in(units::B), 4 * 128.0 * 4096 * 2 + 4096 * 2);
  const Graph of_bert = lower(bert(), train(2, 64));
  EXPECT_EQ(shape_of<Rowwise>(of_bert, "ffn_norm", Pass::backward).kind, RowwiseKind::layernorm_backward);
  int choices = 0;
  for (const Node& n : of_bert.nodes) {
    const auto* row = std::get_if<Rowwise>(&n.op);
    choices += row != nullptr && row->kind == RowwiseKind::dropout_backward;
  }
  EXPECT_EQ(choices, 2) << "behind attention and behind the feed-forward part";
}

/// DeepSeek-V3's recipe: all three products of a layer's matrix have scales of 128; the head, in 16 bits, has none.
TEST(LowerTrain, BlocksOfFp8HaveTheirScalesInBothPasses) {
  Workload w = train(1, 256);
  w.precision_given = true;
  w.precision = *parse_precision("fp8");
  for (const Fp8Recipe recipe : {Fp8Recipe::tensor, Fp8Recipe::block, Fp8Recipe::mx}) {
    w.training.fp8 = recipe;
    const std::int64_t block = recipe == Fp8Recipe::block ? 128 : 0;  // mx: the matrix units' own
    const Graph g = lower(llama_8b(), w);
    EXPECT_EQ(shape_of<Gemm>(g, "qkv_proj").block, block);
    EXPECT_EQ(shape_of<Gemm>(g, "down_proj.dx", Pass::backward).block, block);
    EXPECT_EQ(shape_of<Gemm>(g, "down_proj.dw", Pass::backward).block, block);
    EXPECT_EQ(shape_of<Gemm>(g, "lm_head").block, 0);
  }
  w.precision = *parse_precision("bf16");
  EXPECT_THROW((void)lower(llama_8b(), w), BadInput);
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

TEST(LowerTrain, WrittenOutAttentionStoresItsScores) {
  Workload w = train(2, 256);
  w.training.written_out = true;
  const Graph g = lower(gpt2(), w);
  EXPECT_EQ(find(g, "attention"), nullptr);
  EXPECT_EQ(shape_of<Gemm>(g, "attn_scores").batch, 2 * 12);
  EXPECT_EQ(shape_of<Rowwise>(g, "attn_softmax", Pass::backward).kind, RowwiseKind::softmax_backward);
  EXPECT_EQ(shape_of<Rowwise>(g, "qkv_proj.db", Pass::backward).rows, 512) << "biases have their gradients apart";
  EXPECT_EQ(find(lower(gpt2(), train(2, 256)), "qkv_proj.db"), nullptr);
  w.training.recompute = Recompute::selective;
  const Graph again = lower(gpt2(), w);
  const auto repeats = [&](const char* name) { return find(again, name, Pass::backward) != nullptr; };
  EXPECT_TRUE(repeats("attn_scores.recompute") && repeats("attn_softmax.recompute"));
  EXPECT_FALSE(repeats("qkv_proj.recompute"));
  w.training.recompute = Recompute::full;
  const double forward = flops_of(g, Pass::forward, true), head = 2.0 * 512 * 768 * 50257;
  EXPECT_NEAR(flops_of(lower(gpt2(), w), Pass::backward, true), 3 * forward - head, 1e-9 * forward);
}

/// Of Llama's layer as products are fused here: queries with keys and values, and gate with up, are kept; output and down
/// products run again, attention does not.
/// Of q, k, v, o, gate, up and down every second one: k, o and up. What nobody reads again is not run: behind the last product,
/// and a product whose sum over tensor ranks is kept.
TEST(LowerTrain, EveryOtherProductIsComputedAgain) {
  Workload w = train(1, 256);
  w.training.recompute = Recompute::products;
  const auto columns = [](const Graph& g, const char* name) {
    const Node* node = find(g, name, Pass::backward);
    return node == nullptr ? 0 : std::get<Gemm>(node->op).n;
  };
  const Graph g = lower(llama_8b(), w);
  const auto again = [&](const char* name) { return find(g, name, Pass::backward) != nullptr; };
  EXPECT_EQ(columns(g, "qkv_proj.recompute"), 1024);
  EXPECT_EQ(columns(g, "o_proj.recompute"), 4096);
  EXPECT_EQ(columns(g, "gate_up_proj.recompute"), 14336);
  EXPECT_TRUE(again("attn_norm.recompute") && again("attn_residual_add.recompute"));
  EXPECT_FALSE(again("down_proj.recompute") || again("ffn_residual_add.recompute") || again("attention.recompute"));
  w.parallel.tensor = 2;
  w.parallel.sequence = true;
  const Graph shared = lower(llama_8b(), w);
  EXPECT_EQ(columns(shared, "qkv_proj.recompute"), 512);
  EXPECT_EQ(find(shared, "o_proj.recompute", Pass::backward), nullptr);
  EXPECT_NE(find(shared, "attn_all_gather.recompute", Pass::backward), nullptr);
}

/// A gather for a product is not kept where exchanges travel beside products: it is gathered once more for the gradient of the
/// weights, in front of the product that makes the input's.
TEST(LowerTrain, TensorRanksGatherAgainForTheGradientOfWeights) {
  Workload w = train(2, 256);
  w.parallel.tensor = 2;
  w.parallel.sequence = true;
  EXPECT_EQ(find(lower(llama_8b(), w), "ffn_all_gather.recompute", Pass::backward), nullptr);
  w.overlap = Overlap::iteration;
  const Graph g = lower(llama_8b(), w);
  const auto at = std::find_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) {
    return n.pass == Pass::backward && n.name == std::string_view("ffn_all_gather.recompute");
  });
  ASSERT_NE(at, g.nodes.end());
  EXPECT_EQ(std::string_view((at + 1)->name), "gate_up_proj.dx");
  EXPECT_TRUE(stands_before_its_product(*at));
  const auto gradient = [&](std::string_view name) {
    return *std::find_if(g.nodes.begin(), g.nodes.end(),
                         [&](const Node& n) { return n.pass == Pass::backward && n.name == name; });
  };
  EXPECT_FALSE(stands_before_its_product(gradient("ffn_all_gather")));
  EXPECT_TRUE(stands_before_its_product(gradient("ffn_reduce_scatter")));
}

/// What ranks with a part of the vocabulary each exchange: forward what the embedding found and numbers of the loss, backward
/// the gradient of what the head reads; where they split the tokens, gathers and scattered sums in place of the large ones.
TEST(LowerTrain, RanksThatShareTheVocabularyExchangeWhatTheirPartsLack) {
  Workload w = train(2, 256);
  const auto bytes = [&w](const char* name, Pass pass) {
    const Graph g = lower(llama_8b(), w);
    return find(g, name, pass) == nullptr ? 0 : d(shape_of<Collective>(g, name, pass).bytes);
  };
  EXPECT_EQ(bytes("head_all_reduce", Pass::backward), 0) << "one rank has all of it";
  EXPECT_EQ(bytes("loss_sum_all_reduce", Pass::forward), 0);
  w.parallel.tensor = 2;
  EXPECT_EQ(bytes("embedding_all_reduce", Pass::forward), 2 * 512 * 4096);
  EXPECT_EQ(bytes("embedding_all_reduce", Pass::backward), 0) << "all ranks go on with the same rows";
  EXPECT_EQ(bytes("head_all_reduce", Pass::forward), 0);
  EXPECT_EQ(bytes("head_all_reduce", Pass::backward), 2 * 512 * 4096);
  EXPECT_EQ(bytes("loss_largest_all_reduce", Pass::forward), 4 * 512);
  EXPECT_EQ(bytes("loss_sum_all_reduce", Pass::forward), 2 * 4 * 512) << "and the label's logit";
  EXPECT_EQ(bytes("loss_sum_all_reduce", Pass::backward), 0);
  EXPECT_EQ(bytes("loss_label_all_reduce", Pass::forward), 0);
  w.fusion = Fusion::none;
  EXPECT_EQ(bytes("loss_sum_all_reduce", Pass::forward), 4 * 512);
  EXPECT_EQ(bytes("loss_label_all_reduce", Pass::forward), 4 * 512);
  w.parallel.sequence = true;
  EXPECT_EQ(bytes("head_all_reduce", Pass::backward), 0);
  EXPECT_EQ(bytes("head_all_gather", Pass::backward), 2 * 512 * 4096);
  EXPECT_EQ(bytes("embedding_reduce_scatter", Pass::backward), 2 * 512 * 4096);
}

/// Each layer's parameters travel by themselves, and what is outside of layers; all of them are as many as before.
TEST(LowerTrain, SharedParametersTravelLayerByLayer) {
  Workload w = train(8, 64);
  w.parallel.data = 8;
  for (const int zero : {2, 3}) {
    w.parallel.zero = zero;
    const Graph g = lower(llama_8b(), w);
    double gathered = 0, summed = 0;
    std::int64_t sums = 0;
    for (const Node& n : g.nodes) {
      const auto* c = std::get_if<Collective>(&n.op);
      if (c == nullptr) continue;
      const double bytes = d(c->bytes) * d(n.count);
      (c->kind == CollectiveKind::all_gather ? gathered : summed) += bytes;
      if (c->kind == CollectiveKind::reduce_scatter) sums += n.count;
    }
    EXPECT_EQ(sums, 32 + 1);
    EXPECT_NEAR(summed, 4 * 8030261248.0, 400);
    EXPECT_NEAR(gathered, (zero == 3 ? 2 : 1) * 2 * 8030261248.0, 400);
  }
}

/// In a pipeline each stage exchanges its own parameters behind each micro-batch, whatever its place: gradients once, weights (3)
/// in either pass, or (2) once an iteration. One that none shares them with does what it did without.
TEST(LowerTrain, StagesShareTheirOwnParameters) {
  Workload w = train(32, 64);
  w.parallel.pipeline = 4;
  w.parallel.data = 2;
  w.training.micro_batch = 1;
  for (const int zero : {2, 3}) {
    w.parallel.zero = zero;
    const Graph g = lower(llama_8b(), w);
    for (std::int64_t stage = 0; stage < 4; ++stage) {
      double gathered = 0, summed = 0;
      for (const Node& n : g.nodes) {
        const auto* c = std::get_if<Collective>(&n.op);
        if (c == nullptr) continue;
        const double times = d(g.pipeline.repeat(stage, static_cast<std::size_t>(n.segment), g.segments.size()));
        (c->kind == CollectiveKind::all_gather ? gathered : summed) += d(c->bytes) * times;
        if (std::string_view(n.name) == "forward_all_gather") {
          EXPECT_EQ(n.pass, Pass::forward);
        }
        EXPECT_EQ(g.segments[static_cast<std::size_t>(n.segment)].once,
                  zero == 2 && c->kind == CollectiveKind::all_gather);
      }
      const double params = local_params(llama_8b(), w, stage);
      EXPECT_NEAR(summed, 4 * params, 400) << stage;
      EXPECT_NEAR(gathered, (zero == 3 ? 2 : 1) * 2 * params, 400) << stage;
    }
  }
  w.parallel.data = 1;
  const Graph alone = lower(llama_8b(), w);
  w.parallel.zero = 0;
  const Graph whole = lower(llama_8b(), w);
  ASSERT_EQ(alone.nodes.size(), whole.nodes.size());
  for (std::size_t i = 0; i < alone.nodes.size(); ++i) EXPECT_EQ(alone.nodes[i].op, whole.nodes[i].op);
}

/// Ranks that share a sequence gather keys and values, and hold the same parameters as replicas do.
TEST(LowerTrain, ContextRanksReduceGradientsWithReplicas) {
  Workload w = train(8, 256);
  w.parallel.data = 2;
  w.parallel.context = 4;
  w.parallel.zero = 1;
  const Graph g = lower(llama_8b(), w);
  EXPECT_EQ(shape_of<Collective>(g, "grad_reduce_scatter", Pass::update).gpus, 8);
  EXPECT_EQ(shape_of<Gemm>(g, "qkv_proj").m, 4 * 64);
  EXPECT_NE(find(g, "kv_all_gather", Pass::forward), nullptr);
  EXPECT_NE(find(g, "kv_all_gather", Pass::backward), nullptr);
  const auto& adam = shape_of<Rowwise>(g, "adamw", Pass::update);
  EXPECT_NEAR(d(adam.rows) * d(adam.cols), 8030261248.0 / 8, 4096);
}

/// Micro-batches repeat all but the update, which covers this rank's share from ZeRO 1 on.
TEST(LowerTrain, MicroBatchesAreAddedUp) {
  Workload w = train(8, 64);
  w.parallel.data = 2;
  w.parallel.zero = 1;
  w.training.micro_batch = 1;
  const Graph g = lower(llama_8b(), w);
  EXPECT_EQ(find(g, "qkv_proj", Pass::forward)->count, 4 * 32);
  EXPECT_EQ(find(g, "qkv_proj.dw", Pass::backward)->count, 4 * 32);
  EXPECT_EQ(shape_of<Gemm>(g, "qkv_proj").m, 64);
  EXPECT_EQ(find(g, "adamw", Pass::update)->count, 1);
  const auto& adam = shape_of<Rowwise>(g, "adamw", Pass::update);
  EXPECT_NEAR(d(adam.rows) * d(adam.cols), 8030261248.0 / 2, 4096);
  EXPECT_NEAR(d(shape_of<Collective>(g, "grad_reduce_scatter", Pass::update).bytes), 4 * 8030261248.0, 4);
  EXPECT_NEAR(d(shape_of<Collective>(g, "weight_all_gather", Pass::update).bytes), 2 * 8030261248.0, 4);
}

/// Each stage runs its layers forward and backward, hands on what it has made and its gradients; the first embeds, the last
/// has the head; each updates once.
TEST(LowerTrain, StagesOfAPipelineRunTheirOwnSegments) {
  Workload w = train(8, 64);
  w.parallel.pipeline = 4;
  w.training.schedule = PipelineSchedule::interleaved;
  w.training.chunks = 2;
  const Graph g = lower(llama_8b(), w);
  EXPECT_EQ(g.pipeline.micro_batches, 8);
  const auto repeats = [&](const char* segment, Pass pass, std::int64_t stage) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < g.segments.size(); ++i) {
      const Node& first = g.nodes[static_cast<std::size_t>(g.segments[i].first)];
      if (std::string_view(g.segments[i].name) != segment || first.pass != pass) continue;
      sum += g.pipeline.repeat(stage, i, g.segments.size());
    }
    return sum;
  };
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      EXPECT_EQ(repeats("layer", pass, stage), 8) << stage;
      EXPECT_EQ(repeats("embedding", pass, stage), stage == 0) << stage;
      EXPECT_EQ(repeats("head", pass, stage), stage == 3) << stage;
    }
    EXPECT_EQ(repeats("stage_end", Pass::forward, stage), stage == 3 ? 1 : 2) << "behind each chunk";
    EXPECT_EQ(repeats("stage_end", Pass::backward, stage), stage == 0 ? 1 : 2) << stage;
    EXPECT_EQ(repeats("optimizer", Pass::update, stage), 1) << stage;
  }
}

}  // namespace
}  // namespace plumbline::testing_support::lower_train_test
