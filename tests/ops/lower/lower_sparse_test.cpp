// Feed-forward weights that are trained 2:4 sparse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "ops/facts/work.hpp"
#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::lower_sparse_test {
namespace {

using ::testing::HasSubstr;

Workload sparse(std::int64_t batch, std::int64_t prompt) {
  Workload w = train(batch, prompt);
  w.training.sparse = SparseWeights::ffn;
  return w;
}

std::string refused(const Llm& llm, const Workload& w) {
  try {
    (void)lower(llm, w);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

/// Llama-3.1-8B: gate and up are one product of 28672 columns, down reads 14336.
TEST(LowerSparse, PrunesAndMultipliesEachFeedForwardWeight) {
  const Graph g = lower(llama_8b(), sparse(2, 256));
  EXPECT_EQ(shape_of<Sparsify24>(g, "up_prune"), (Sparsify24{28672, 4096}));
  EXPECT_EQ(shape_of<Sparsify24>(g, "down_prune"), (Sparsify24{4096, 14336}));
  EXPECT_EQ(shape_of<GemmSparse24>(g, "gate_up_proj"), (GemmSparse24{512, 28672, 4096, {}}));
  const auto dx = shape_of<GemmSparse24>(g, "down_proj.dx", Pass::backward);
  EXPECT_EQ((std::vector{dx.m, dx.n, dx.k}), (std::vector<std::int64_t>{512, 14336, 4096}));
  const auto dw = shape_of<Gemm>(g, "down_proj.dw", Pass::backward);
  EXPECT_EQ((std::vector{dw.m, dw.n, dw.k}), (std::vector<std::int64_t>{4096, 14336, 512}));
  EXPECT_TRUE(dw.accumulate);
  EXPECT_EQ(shape_of<Gemm>(g, "qkv_proj").k, 4096);  // attention stays dense
}

/// Of the forward product and of the gradient of its input half of the multiplications are left, of the weights' gradient all.
TEST(LowerSparse, HalvesTwoProductsOfThree) {
  const double all = tensor_flops(lower(llama_8b(), train(2, 256)));
  const double ffn = 32 * 3 * 2.0 * 512 * 3 * 14336 * 4096;  // forward and twice that backward
  EXPECT_NEAR(all - tensor_flops(lower(llama_8b(), sparse(2, 256))), ffn / 3, 1e-9 * ffn);
}

/// 9/16 of a weight along either side, 9/8 in all, and a bit a weight: 2.375 bytes of 16-bit weights each.
TEST(LowerSparse, KeepsBothCopiesFromForwardToBackward) {
  const double more =
      (lower(llama_8b(), sparse(2, 256)).memory.activations - lower(llama_8b(), train(2, 256)).memory.activations)
          .in(units::B);
  EXPECT_DOUBLE_EQ(more, 32 * 3.0 * 14336 * 4096 * (2 * 9.0 / 8 + 1.0 / 8));
}

TEST(LowerSparse, PrunesAgainWhatIsComputedAgain) {
  Workload w = sparse(2, 256);
  w.training.recompute = Recompute::full;
  const Graph g = lower(llama_8b(), w);
  int times = 0;
  for (const Node& n : g.nodes) times += std::holds_alternative<Sparsify24>(n.op) ? 1 : 0;
  EXPECT_EQ(times, 4);
}

TEST(LowerSparse, IsRefusedWhereNothingIsKnownOfIt) {
  Workload eager = sparse(1, 64), products = sparse(1, 64), narrow = sparse(1, 64);
  eager.training.eager = true;
  EXPECT_THAT(refused(llama_8b(), eager), HasSubstr("sparse24: what an eager framework launches"));
  products.training.recompute = Recompute::products;
  EXPECT_THAT(refused(llama_8b(), products), HasSubstr("sparse24: with recompute products"));
  narrow.precision = *parse_precision("fp8");
  narrow.precision_given = true;
  EXPECT_THAT(refused(llama_8b(), narrow), HasSubstr("sparse24: expected weights of 16 bits; found fp8"));
}

/// A model whose layers have experts alone.
TEST(LowerSparse, IsRefusedWithoutDenseFeedForwardParts) {
  EXPECT_THAT(refused(gpt_oss(), sparse(1, 64)), HasSubstr("expected a model with dense feed-forward parts"));
}

}  // namespace
}  // namespace plumbline::testing_support::lower_sparse_test
