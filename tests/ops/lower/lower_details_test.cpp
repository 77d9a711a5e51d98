// Single nodes and bytes of a step that no sum over the graph would miss.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "ops/memory/memory.hpp"
#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::lower_details_test {
namespace {

double bytes(Bytes b) { return b.in(units::B); }

Llm with_ffn(const FfnSpec& f) { return model("x", 2048, 32000, {{layer(gqa(16, 2, 128), f), 2}}); }

/// One more column of the router, but for eager code, which multiplies apart.
TEST(LowerMoe, TheSharedExpertsGateIsAColumnOfTheRouter) {
  FfnSpec f = moe(64, 4, 1024, 2048);
  f.shared_gate = true;
  EXPECT_EQ(shape_of<Gemm>(lower(with_ffn(f), prefill(1, 300)), "router").n, 65);
  const Graph eager = lower(with_ffn(f), prefill(1, 300, Fusion::none));
  EXPECT_EQ(shape_of<Gemm>(eager, "router").n, 64);
  EXPECT_EQ(shape_of<Gemm>(eager, "shared_gate").n, 1);
  f.shared_gate = false;
  EXPECT_EQ(shape_of<Gemm>(lower(with_ffn(f), prefill(1, 300)), "router").n, 64);
}

/// A dense part beside the experts (Arctic) runs as a shared expert does, and as wide as both where there are two.
TEST(LowerMoe, ADensePartBesideTheExpertsIsASharedExpert) {
  FfnSpec f = moe(64, 4, 1024);
  f.width = 4096;
  EXPECT_EQ(shape_of<Gemm>(lower(with_ffn(f), prefill(1, 300)), "shared_down_proj").k, 4096);
  f.shared_width = 512;
  EXPECT_EQ(shape_of<Gemm>(lower(with_ffn(f), prefill(1, 300)), "shared_down_proj").k, 4096 + 512);
}

/// ALBERT's embedding is 128 wide, its layers 768: rows are projected up, and down again before the tied head.
TEST(LowerHead, ATiedHeadIsAsNarrowAsItsEmbedding) {
  const Graph g = lower(load_llm("albert-base-v1"), prefill(2, 64));
  const auto product = [&](const char* node) {
    const auto s = shape_of<Gemm>(g, node);
    return std::array{s.m, s.n, s.k};
  };
  EXPECT_EQ(shape_of<Embedding>(g, "embedding").cols, 128);
  EXPECT_EQ(product("embedding_proj"), (std::array<std::int64_t, 3>{128, 768, 128}));
  EXPECT_EQ(product("head_proj"), (std::array<std::int64_t, 3>{128, 128, 768}));
  EXPECT_EQ(product("lm_head"), (std::array<std::int64_t, 3>{128, 30000, 128}));
  EXPECT_EQ(shape_of<Rowwise>(g, "head_norm").cols, 128);
  const Graph bert = lower(load_llm("bert-large-uncased"), prefill(2, 64));
  EXPECT_EQ(shape_of<Gemm>(bert, "lm_head").k, 1024) << "an embedding as wide as its layers has no projection";
}

/// Values and gates of the pooled tokens are projected side by side, and all of them are read to be pooled.
TEST(LowerMla, PoolingHasValuesAndGates) {
  const Llm m = compressed();
  std::int64_t dim = 0;
  for (const LayerSpec& l : m.main().kinds) {
    if (l.mixer.as<CompressedSpec>()->ratio > 0) dim = l.mixer.as<CompressedSpec>()->dim;
  }
  ASSERT_GT(dim, 0);
  const Graph g = lower(m, prefill(1, 4096));
  EXPECT_EQ(shape_of<Gemm>(g, "compress_proj").n, 2 * dim);
  EXPECT_EQ(shape_of<Rowwise>(g, "compress_pool").cols, 2 * dim);
}

/// Training keeps the latents of queries and of keys before and after their norms.
TEST(Memory, LatentsAreStoredTwice) {
  const auto stored = [](std::int64_t more_q, std::int64_t more_kv) {
    Llm m = deepseek_v3();
    for (StackSpec& stack : m.stacks) {
      for (LayerSpec& l : stack.kinds) {
        auto& latent = l.mixer.edit<MlaSpec>();
        latent.q_lora_rank += more_q;
        latent.kv_lora_rank += more_kv;
      }
    }
    return bytes(memory_need(m, train(1, 128)).activations);
  };
  const double layers = static_cast<double>(deepseek_v3().main().order.size());
  EXPECT_NEAR(stored(64, 0) - stored(0, 0), layers * 128 * 2 * (2 * 64), 1);
  EXPECT_NEAR(stored(0, 32) - stored(0, 0), layers * 128 * 2 * (2 * 32), 1);
}

/// cuBLAS's 32 MiB, and fp32 results of 32 parts of a context: 16 sequences x 32 heads x 128 values and their log-sum.
TEST(Memory, DecodeHoldsPartialResults) {
  constexpr double kMiB = 1024.0 * 1024.0;
  EXPECT_DOUBLE_EQ(bytes(memory_need(llama_8b(), prefill(16, 100)).workspace), 32 * kMiB);
  EXPECT_DOUBLE_EQ(bytes(memory_need(llama_8b(), decode(16, 100)).workspace), 32 * kMiB + 16 * 32 * 129 * 32 * 4.0);
  EXPECT_DOUBLE_EQ(bytes(memory_need(deepseek_v3(), decode(16, 100)).workspace), 32 * kMiB + 16 * 128 * 513 * 32 * 4.0);
}

}  // namespace
}  // namespace plumbline::testing_support::lower_details_test
