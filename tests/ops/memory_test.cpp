// Memory of one rank of several, and what fusion and storage change, by hand.
#include "ops/memory/memory.hpp"

#include <gtest/gtest.h>

#include <tuple>

#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::memory_test {
namespace {

double bytes(Bytes b) { return b.in(units::B); }

Workload on_ranks(Workload w, std::int64_t tensor, std::int64_t expert = 1) {
  w.parallel.tensor = tensor;
  w.parallel.expert = expert;
  return w;
}

constexpr double kMixtralExperts = 32 * 8 * 3 * 4096.0 * 14336;

TEST(Memory, ExpertsAreDealtOutAndTheirWidthIsSplitWithinATensorGroup) {
  const Llm m = mixtral();
  const double rest = m.params - kMixtralExperts;
  EXPECT_DOUBLE_EQ(local_params(m, on_ranks(decode(1, 1), 1, 4)), rest + kMixtralExperts / 4);
  EXPECT_DOUBLE_EQ(local_params(m, on_ranks(decode(1, 1), 2)), rest / 2 + kMixtralExperts / 2);
  EXPECT_DOUBLE_EQ(local_params(m, on_ranks(decode(1, 1), 4, 2)), rest / 4 + kMixtralExperts / 4) << "two halves each";
  EXPECT_DOUBLE_EQ(local_params(m, on_ranks(decode(1, 1), 2, 8)), rest / 2 + kMixtralExperts / 8) << "of 4 replicas";
  EXPECT_DOUBLE_EQ(bytes(memory_need(m, on_ranks(decode(1, 1), 1, 4)).weights), 2 * (rest + kMixtralExperts / 4));
}

TEST(Memory, ExpertsThatDoNotDivideAreRoundedUp) {
  const Llm m = mixtral();
  EXPECT_DOUBLE_EQ(local_params(m, on_ranks(decode(1, 1), 1, 3)), m.params - kMixtralExperts + kMixtralExperts * 3 / 8);
}

TEST(Memory, DataParallelAttentionHoldsMixersWholeAndItsOwnSequences) {
  const Llm m = llama_8b();
  Workload w = on_ranks(decode(8, 999), 4);
  w.parallel.attention_data = true;
  const double mixers = 32 * (4096.0 * (32 + 2 * 8) * 128 + 4096.0 * 4096), embedding = 128256.0 * 4096;
  EXPECT_DOUBLE_EQ(local_params(m, w), mixers + embedding + (m.params - mixers - embedding) / 4);
  EXPECT_DOUBLE_EQ(bytes(memory_need(m, w).kv_cache), 2 * 1000 * 131072.0);
}

TEST(Memory, AStageHoldsItsLayersAndTheFullestCounts) {
  const Llm m = llama_8b();
  Workload w = decode(4, 999);
  w.parallel.pipeline = 3;  // 11, 11 and 10 layers
  const double layer = 4096.0 * (32 + 2 * 8) * 128 + 4096.0 * 4096 + 3 * 4096.0 * 14336 + 2 * 4096;
  const double first = 2 * (11 * layer + 128256.0 * 4096), last = 2 * (10 * layer + 128256.0 * 4096 + 4096);
  const MemoryNeed need = memory_need(m, w);
  EXPECT_DOUBLE_EQ(bytes(need.weights), std::max(first, last));
  EXPECT_DOUBLE_EQ(bytes(need.kv_cache), 4 * 1000 * 131072.0 * 11 / 32) << "of all micro-batches";
}

TEST(Memory, ContextRanksKeepAShareOfTheCache) {
  Workload w = decode(1, 999);
  w.parallel.context = 4;
  EXPECT_DOUBLE_EQ(bytes(memory_need(llama_8b(), w).kv_cache), 250 * 131072.0);
}

TEST(Memory, RoutersAndNormsStayWide) {
  Workload w = decode(1, 1);
  w.precision_given = true;
  w.precision = *parse_precision("fp8");
  const Llm m = mixtral();
  const double tables = 2 * 32000.0 * 4096, norms = 65 * 4096.0, routers = 32 * 8 * 4096.0;
  const double wide = tables + norms + routers;
  EXPECT_DOUBLE_EQ(bytes(memory_need(m, w).weights), 2 * wide + (m.params - wide));
}

/// In training Transformer Engine keeps the cast rows that products in fp8 read in place of those of 16 bits: of queries, keys and
/// values, of gate and up, and of down; attention keeps its result itself. Weights are cast both ways, and kept.
TEST(Memory, ProductsInFp8KeepTheirCastInput) {
  Workload w = train(1, 128);
  const MemoryNeed wide = memory_need(llama_8b(), w);
  w.precision_given = true;
  w.precision = *parse_precision("fp8");
  const double read = 32 * 128 * (2 * 4096 + 14336.0),
               weights = 32 * (3 * 4096.0 * 14336 + 4096.0 * (2 * 4096 + 2 * 1024));
  for (const auto& [recipe, rows, blocks] : {std::tuple{Fp8Recipe::tensor, 0.0, 0.0},
                                             {Fp8Recipe::block, 4.0 / 128, 4.0 / 16384},
                                             {Fp8Recipe::mx, 1.0 / 32, 1.0 / 32}}) {
    w.training.fp8 = recipe;
    const MemoryNeed narrow = memory_need(llama_8b(), w);
    EXPECT_DOUBLE_EQ(bytes(wide.activations) - bytes(narrow.activations), read * (1 - rows));
    EXPECT_NEAR(bytes(narrow.weights) - bytes(wide.weights), 2 * (1 + blocks) * weights, 1);
  }
}

TEST(Memory, LiveActivationsOfAnFfnAreSplitByTensorParallelism) {
  // The residual stream and the norm's result are whole; gate, up and their product are halves.
  const MemoryNeed dense = memory_need(llama_8b(), on_ranks(prefill(1, 2048), 2));
  EXPECT_DOUBLE_EQ(bytes(dense.activations), 2048 * 2 * (4096 + 4096 + 3 * 14336 / 2.0));
  // Experts: two rows a token, each with its input and result beside its share of the width.
  const MemoryNeed routed = memory_need(mixtral(), on_ranks(prefill(1, 2048), 2));
  EXPECT_DOUBLE_EQ(bytes(routed.activations), 2048 * 2 * (4096 + 2 * 4096 + 2 * (2 * 4096 + 3 * 14336 / 2.0)));
}

TEST(Memory, MaximalFusionComputesTheGatedProductAgainInTraining) {
  const double typical = bytes(memory_need(llama_8b(), train(1, 128)).activations);
  const double max = bytes(memory_need(llama_8b(), train(1, 128, Fusion::max)).activations);
  EXPECT_DOUBLE_EQ(typical - max, 32 * 128 * 2 * 14336.0);
}

TEST(Memory, KeysAndValuesAreSplitByHeadsAndRepeatedBeyondThem) {
  const auto cache = [](std::int64_t tensor) {
    return bytes(memory_need(llama_8b(), on_ranks(decode(1, 999), tensor)).kv_cache);
  };
  EXPECT_DOUBLE_EQ(cache(1), 1000 * 131072.0);
  EXPECT_DOUBLE_EQ(cache(8), 1000 * 131072.0 / 8);
  EXPECT_DOUBLE_EQ(cache(16), cache(8));  // 8 heads: two ranks hold the same one
}

TEST(Memory, PooledStreamsKeepAWindowAndOneTokenInARatio) {
  // 4096 tokens: 128 of them whole, beside 4096 / 128 pooled ones, or 4096 / 4 pooled ones with an indexer key each.
  const double plain = (128 + 32) * 512.0, indexed = (128 + 1024) * 512.0 + 1024 * 128.0;
  EXPECT_DOUBLE_EQ(bytes(memory_need(compressed(), decode(1, 4095)).kv_cache), 2 * 20 * (plain + indexed));
}

}  // namespace
}  // namespace plumbline::testing_support::memory_test
