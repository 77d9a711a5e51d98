// Chunked prefill: the prompt is a chunk behind tokens that the cache holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "ops/facts/work.hpp"
#include "ops/lower/lower.hpp"
#include "ops/memory/memory.hpp"
#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::lower_chunked_test {
namespace {

Workload chunk(std::int64_t batch, std::int64_t prompt, std::int64_t cached, Fusion fusion = Fusion::typical) {
  Workload w = prefill(batch, prompt, fusion);
  w.cached = cached;
  return w;
}

bool reads_in_chunks(const Llm& m) {
  bool encoder = false;
  for (const StackSpec& stack : m.stacks) encoder = encoder || stack.role == StackSpec::Role::encoder;
  return is_decoder(m) && !encoder;
}

double flops(const Graph& g) {
  double sum = 0;
  for (const Node& n : g.nodes) sum += static_cast<double>(n.count) * work(n.op).flops().in(units::FLOP);
  return sum;
}

const AttentionPrefill* attention(const Graph& g) {
  for (const Node& n : g.nodes) {
    if (const auto* a = std::get_if<AttentionPrefill>(&n.op)) return a;
  }
  return nullptr;
}

TEST(ChunkedPrefill, QueriesOfTheChunkSeeCachedAndNewKeys) {
  const Graph g = lower(llama_8b(), chunk(2, 512, 65536));
  const AttentionPrefill* a = attention(g);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->batch, 2);
  EXPECT_EQ(a->q_len, 512);
  EXPECT_EQ(a->kv_len, 65536 + 512);
  EXPECT_DOUBLE_EQ(g.tokens, 2 * 512) << "the chunk's";
  EXPECT_DOUBLE_EQ(g.memory.kv_cache.in(units::B),
                   memory_need(llama_8b(), prefill(2, 65536 + 512)).kv_cache.in(units::B));
}

TEST(ChunkedPrefill, ChunksAddUpToTheWholeOfAttention) {
  // Every query sees the same keys, however the prompt is cut; only heads and samplers run once a chunk.
  for (const Llm& m : {llama_8b(), mixtral(), gemma2(), llama4()}) {
    const auto pairs = [&](const Workload& w) {
      double sum = 0;
      const Graph g = lower(m, w);
      for (const Node& n : g.nodes) {
        if (const auto* a = std::get_if<AttentionPrefill>(&n.op)) {
          sum += static_cast<double>(n.count * a->batch) * visible_pairs(*a);
        }
      }
      return sum;
    };
    constexpr std::int64_t kWhole = 20000, kFirst = 8000, kSecond = 700;  // chunks of Llama-4 are 8192 long
    const double parts = pairs(prefill(3, kFirst)) + pairs(chunk(3, kSecond, kFirst)) +
                         pairs(chunk(3, kWhole - kFirst - kSecond, kFirst + kSecond));
    EXPECT_DOUBLE_EQ(parts, pairs(prefill(3, kWhole))) << m.name;
  }
}

TEST(ChunkedPrefill, MoreContextIsNeverLessWork) {
  for (const Llm& m : all_models()) {
    if (!reads_in_chunks(m)) continue;
    for (const Fusion fusion : {Fusion::none, Fusion::typical, Fusion::max}) {
      double before = flops(lower(m, prefill(1, 256, fusion)));
      for (std::int64_t cached = 1; cached < 100000; cached = 3 * cached + 1) {
        const Graph g = lower(m, chunk(1, 256, cached, fusion));
        EXPECT_GE(flops(g), before * (1 - 1e-12)) << m.name << " " << cached;
        before = flops(g);
      }
    }
  }
}

TEST(ChunkedPrefill, LatentKeysOfTheCacheAreExpandedAgain) {
  const Graph g = lower(deepseek_v3(), chunk(2, 128, 1000));
  int found = 0;
  for (const Node& n : g.nodes) {
    const std::string name = n.name;
    if (name != "kv_b_proj" && name != "q_b_proj") continue;
    EXPECT_EQ(std::get<Gemm>(n.op).m, name == "kv_b_proj" ? 2 * 1128 : 2 * 128);
    ++found;
  }
  EXPECT_GE(found, 2);
}

TEST(ChunkedPrefill, IsOfDecodersWithoutAnEncoder) {
  for (const Llm& m : all_models()) {
    if (reads_in_chunks(m)) {
      EXPECT_NO_THROW((void)lower(m, chunk(1, 16, 16))) << m.name;
    } else {
      EXPECT_THROW((void)lower(m, chunk(1, 16, 16)), BadInput) << m.name;
    }
  }
}

}  // namespace
}  // namespace plumbline::testing_support::lower_chunked_test
