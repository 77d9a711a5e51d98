// Shapes of one rank and the collectives between ranks. `lower` refuses several ranks today, the inside does not.
#include <gtest/gtest.h>

#include "ops/lower/parts.hpp"
#include "ops/memory/memory.hpp"
#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing {
namespace {

Graph on_ranks(const Llm& m, Workload w, std::int64_t tensor, std::int64_t expert = 1, std::int64_t data = 1) {
  w.parallel.tensor = tensor;
  w.parallel.expert = expert;
  w.parallel.data = data;
  Graph g;
  lowering::lower_any(m, w, g);
  return g;
}

TEST(LowerParallel, OneRankHasNoCollectives) {
  for (const Llm& m : all_models()) {
    for (const Node& n : lower(m, train(1, 64)).nodes) {
      EXPECT_FALSE(std::holds_alternative<Collective>(n.op)) << m.name << ' ' << n.name;
      EXPECT_EQ(n.stream, 0);
    }
  }
}

TEST(LowerParallel, TensorParallelLayerReducesTwice) {
  const Graph g = on_ranks(llama_70b(), decode(4, 1000), 8);
  EXPECT_EQ(shape_of<Gemm>(g, "qkv_proj").n, (8 + 2) * 128);
  EXPECT_EQ(shape_of<Gemm>(g, "down_proj").k, 28672 / 8);
  EXPECT_EQ(shape_of<AttentionDecode>(g, "attention").kv_heads, 1);
  EXPECT_EQ(shape_of<Gemm>(g, "lm_head").n, 128256 / 8);
  for (const char* name : {"attn_all_reduce", "ffn_all_reduce"}) {
    const auto& c = shape_of<Collective>(g, name);
    EXPECT_EQ(c.bytes, 4 * 8192 * 2);
    EXPECT_EQ(c.gpus, 8);
    EXPECT_EQ(find(g, name)->stream, 1);
    EXPECT_EQ(find(g, name)->count, 80);
  }
}

TEST(LowerParallel, KvHeadsAreReplicatedNotSplitBelowOne) {
  EXPECT_EQ(shape_of<AttentionDecode>(on_ranks(llama_70b(), decode(4, 1000), 16), "attention").kv_heads, 1);
}

TEST(LowerParallel, RanksTogetherDoAtLeastTheWork) {
  for (const Llm& m : all_models()) {
    for (const std::int64_t tensor : {2, 4, 8}) {
      const double one = tensor_flops(lower(m, prefill(2, 128)));
      const double rank = tensor_flops(on_ranks(m, prefill(2, 128), tensor));
      EXPECT_GE(rank * d(tensor), one * (1 - 1e-12)) << m.name << tensor;
      EXPECT_LT(rank, one) << m.name << tensor;
    }
  }
}

TEST(LowerParallel, ExpertParallelExchangesTokens) {
  const Graph g = on_ranks(deepseek_v3(), prefill(1, 4096), 1, 8);
  const auto& up = shape_of<GroupedGemm>(g, "experts_gate_up");
  EXPECT_EQ(up.experts, 32);
  EXPECT_EQ(up.tokens * up.topk, 4096 * 8);
  EXPECT_EQ(shape_of<Collective>(g, "moe_dispatch").bytes, 4096 * 8 * 7168);     // fp8
  EXPECT_EQ(shape_of<Collective>(g, "moe_collect").bytes, 4096 * 8 * 7168 * 2);  // bf16
}

TEST(LowerParallel, DataParallelTrainingReducesGradients) {
  const Graph g = on_ranks(llama_8b(), train(1, 64), 2, 1, 4);
  const auto& c = shape_of<Collective>(g, "grad_all_reduce", Pass::update);
  EXPECT_EQ(c.gpus, 4);
  EXPECT_NEAR(d(c.bytes), 8030261248.0, 2);  // half of the parameters, two bytes each
  EXPECT_EQ(g.tokens, 4 * 64);
}

TEST(LowerParallel, WeightsAndCacheAreShared) {
  const MemoryNeed one = lower(llama_70b(), decode(4, 999)).memory;
  const MemoryNeed rank = on_ranks(llama_70b(), decode(4, 999), 4).memory;
  EXPECT_DOUBLE_EQ(rank.weights.in(units::B)*4, one.weights.in(units::B));
  EXPECT_DOUBLE_EQ(rank.kv_cache.in(units::B)*4, one.kv_cache.in(units::B));
  // The latent of MLA is in every rank.
  EXPECT_EQ(on_ranks(deepseek_v3(), decode(4, 999), 4).memory.kv_cache,
            lower(deepseek_v3(), decode(4, 999)).memory.kv_cache);
}

}  // namespace
}  // namespace plumbline::testing
