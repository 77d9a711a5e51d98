// Which operators the backward pass of an operator consists of (those of row-wise ones and of products: op_table_test).
#include "ops/facts/gradient.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "ops/facts/work.hpp"
#include "ops/shape/attention_backward.hpp"
#include "ops/shape/attention_decode.hpp"
#include "ops/shape/attention_prefill.hpp"
#include "ops/shape/causal_conv.hpp"
#include "ops/shape/collective.hpp"
#include "ops/shape/embedding.hpp"
#include "ops/shape/embedding_backward.hpp"
#include "ops/shape/gemm.hpp"
#include "ops/shape/gemm_sparse24.hpp"
#include "ops/shape/grouped_gemm.hpp"
#include "ops/shape/mla_decode.hpp"
#include "ops/shape/moe_permute.hpp"
#include "ops/shape/recurrence.hpp"
#include "ops/shape/rope.hpp"
#include "ops/shape/scan.hpp"
#include "ops/shape/softmax_topk.hpp"
#include "ops/shape/sparsify24.hpp"
#include "ops/shape/spmv.hpp"
#include "ops/shape/topk.hpp"
#include "ops/shape/transfer.hpp"

namespace plumbline::op_gradient_test {
namespace {

using enum GradientPart;

void expect_gradient(const Op& op, const std::vector<Gradient::Node>& expected) {
  const Gradient found = gradient_of(op, NodeRole::plain);
  ASSERT_EQ(static_cast<std::size_t>(found.size), expected.size()) << op_name(op);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found.nodes[i].part, expected[i].part) << op_name(op) << i;
    EXPECT_TRUE(found.nodes[i].op == expected[i].op) << op_name(op) << i;
  }
}

/// dX[M,K] = dY W and dW[N,K] = dY^T X.
TEST(Gradients, OfProductsAreProductsOfTheTransposes) {
  const Precision fp8 = *parse_precision("fp8");
  expect_gradient(Gemm{2, 3, 4, 5, fp8, true}, {{dx, Gemm{2, 4, 3, 5, fp8}}, {dw, Gemm{3, 4, 2, 5, fp8}}});
  expect_gradient(GroupedGemm{8, 2, 9, 3, 4, 50, {}},
                  {{dx, GroupedGemm{8, 2, 9, 4, 3, 50, {}}}, {dw, GroupedGemm{8, 2, 9, 3, 4, 50, {}, true}}});
  Gemm blocks{2, 3, 4, 1, fp8};
  blocks.block = 128;
  for (const Gradient::Node& part : gradient_of(blocks, NodeRole::plain)) {
    EXPECT_EQ(std::get<Gemm>(part.op).block, 128) << "scales of 128 in all three products";
  }
  // of many rows each comes back by itself
  expect_gradient(GroupedGemm{8, 2, 16, 3, 4, 50, {}},
                  {{dx, GroupedGemm{8, 1, 32, 4, 3, 50, {}}}, {dw, GroupedGemm{8, 2, 16, 3, 4, 50, {}, true}}});
}

/// Operands lie as the forward pass left them: W[N,K] is read by rows of what is now N, and both operands of a gradient of weights
/// by rows of what is now M and N.
TEST(Gradients, OfProductsReadTheirOperandsAsTheyLie) {
  const WeightLayout kn = WeightLayout::kn, nk = WeightLayout::nk, km = WeightLayout::km;
  const Precision bf16 = *parse_precision("bf16");
  expect_gradient(Gemm{2, 3, 4, 1, bf16},
                  {{dx, Gemm{2, 4, 3, 1, bf16, false, kn}}, {dw, Gemm{3, 4, 2, 1, bf16, false, km}}});
  expect_gradient(Gemm{2, 3, 4, 1, bf16, false, kn},
                  {{dx, Gemm{2, 4, 3, 1, bf16, false, nk}}, {dw, Gemm{3, 4, 2, 1, bf16, false, km}}});
}

TEST(Gradients, OfFlashAttentionAreAnOperatorOfItsOwn) {
  expect_gradient(AttentionPrefill{2, 8, 4, 192, 128, 100, 100, true, 64},
                  {{whole, AttentionBackward{2, 8, 4, 192, 128, 100, 100, true, 64}}});
}

/// Five products for the forward pass's two: S, dQ and dK over the QK width, dP and dV over that of values.
TEST(Gradients, OfFlashAttentionAreFiveProducts) {
  for (const bool causal : {false, true}) {
    const AttentionPrefill equal{2, 8, 4, 128, 128, 100, 100, causal}, wide{2, 8, 4, 192, 128, 100, 100, causal};
    EXPECT_DOUBLE_EQ(work(backward_of(equal)).tensor / work(equal).tensor, 2.5);
    EXPECT_DOUBLE_EQ(work(backward_of(wide)).tensor / work(wide).tensor, (3 * 192 + 2 * 128) / (192.0 + 128));
  }
  const Work w = work(AttentionBackward{1, 4, 2, 64, 64, 100, 100, false});
  const double q = 4 * 100 * 64.0 * 2, kv = 2 * 100 * 64.0 * 2;  // bytes of Q, O, dO each; of K, V each
  EXPECT_DOUBLE_EQ(w.read.in(units::B), 3 * q + 2 * kv + 4 * 100 * 4.0);
  EXPECT_DOUBLE_EQ(w.write.in(units::B), q + 2 * kv);
}

TEST(Gradients, OfMovesGoBack) {
  const MoePermute dispatch{9, 2, 64, false}, combine{9, 2, 64, true};
  expect_gradient(dispatch, {{whole, combine}});
  expect_gradient(combine, {{whole, dispatch}});
  const Embedding rows{9, 64};
  expect_gradient(rows, {{whole, EmbeddingBackward{9, 64, 0}}});
  const Collective sum{CollectiveKind::all_reduce, 4096, 4};
  expect_gradient(sum, {{whole, sum}});
  const Transfer send{TransferKind::send_recv, 64};
  expect_gradient(send, {{whole, send}});
  const Rope rotation{9, 4, 64};
  expect_gradient(rotation, {{whole, rotation}});
}

TEST(Gradients, OfStatesAreARecomputationAndAScanInReverse) {
  const Recurrence scan{RecurrentKind::gated_delta_net, 1, 64, 8, 16, 16};
  expect_gradient(scan, {{recompute, scan}, {reverse, scan}});
  const CausalConv conv{1, 64, 32, 4};
  expect_gradient(conv, {{dx, conv}, {dw, conv}});
}

/// The copy that is compressed along N gives dX; dW is that of a dense weight.
TEST(Gradients, OfSparseWeightsAreOneSparseProductAndADenseOne) {
  const GemmSparse24 product{64, 32, 16, {}, true};
  expect_gradient(product,
                  {{dx, GemmSparse24{64, 16, 32, {}}}, {dw, Gemm{32, 16, 64, 1, {}, false, WeightLayout::km}}});
}

/// Choices have none; the rest is no part of a training step.
TEST(Gradients, AreAbsentWhereNothingIsTrained) {
  for (const Op& op :
       {Op(TopK{2, 8, 2}), Op(SoftmaxTopK{2, 8, 2}), Op(AttentionDecode{1, 8, 4, 64, 64, 9}),
        Op(MlaDecode{1, 8, 9, 512, 64}), Op(Scan{ScanKind::cumsum, 9}), Op(Spmv{3, 4, 5}), Op(Sparsify24{8, 8}),
        Op(Transfer{TransferKind::h2d, 64}), Op(AttentionBackward{1, 8, 4, 64, 64, 9, 9})}) {
    expect_gradient(op, {});
  }
}

}  // namespace
}  // namespace plumbline::op_gradient_test
