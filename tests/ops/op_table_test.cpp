// The table of operators: names, keys, relations and gradients of every operator in it.
#include "ops/table/table.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "ops/table/text.hpp"
#include "tests/support/random_op.hpp"

namespace plumbline::op_table_test {
namespace {

using testing_support::random_op_of;

TEST(OpTable, NamesAreUniqueAndTheContractsComeFirst) {
  std::set<std::string_view> names;
  bool ours = false;
  for (const Operator& each : operators()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_EQ(find_operator(each.name), &each);
    EXPECT_EQ(op_name(each.make(each.kind, {})), each.name);
    EXPECT_FALSE(ours && !each.ours) << each.name << " of the contract behind one of ours";
    ours = each.ours;
  }
  EXPECT_EQ(find_operator("gem"), nullptr);
  for (std::size_t i = 0; i < kRowwiseKinds; ++i) EXPECT_EQ(names.count(name(static_cast<RowwiseKind>(i))), 1u);
}

TEST(OpTable, KeysOfAnOperatorDiffer) {
  for (const Operator& each : operators()) {
    std::set<std::string_view> keys;
    for (const Key& key : each.keys) EXPECT_TRUE(keys.insert(key.name).second) << each.name << ' ' << key.name;
    EXPECT_LE(each.keys.size(), 32u);  // the reader notes in one word which were given
  }
}

TEST(OpTable, KeysReadAndWriteTheMemberTheyName) {
  Op op = Gemm{};
  const auto key = [&](std::string_view name) {
    for (const Key& k : keys_of(op)) {
      if (k.name == name) return k;
    }
    throw std::runtime_error("no such key");
  };
  key("K").set(shape_address(op), 7);
  key("bias").set(shape_address(op), 1);
  key("weight").set(shape_address(op), static_cast<double>(DType::fp8));
  EXPECT_EQ(std::get<Gemm>(op).k, 7);
  EXPECT_TRUE(std::get<Gemm>(op).bias);
  EXPECT_EQ(std::get<Gemm>(op).precision.weight, DType::fp8);
  EXPECT_EQ(key("K").get(shape_address(op)), 7);
  EXPECT_EQ(key("batch").usual(shape_address(op)), 1);
}

/// Every operator is drawn, whatever its relations, and no relation is left broken.
RC_GTEST_PROP(OpTable, MendedShapesHold, ()) {
  for (const Operator& each : operators()) {
    const Op op = random_op_of(each);
    RC_LOG() << each.name << " " << shape_text(op);
    RC_ASSERT(broken_relation(op) == nullptr);
    RC_ASSERT(parse_op(each.name, dtype_text(op), shape_text(op)) == op);
  }
}

// --- gradients -------------------------------------------------------------------------------------------------------

double tensor(const Op& op) { return work(op).tensor.in(units::FLOP); }

RC_GTEST_PROP(Gradients, MatrixProductsCostTwiceTheForwardOne, ()) {
  const Op op = testing_support::coin() ? Op(testing_support::random_shape<Gemm>())
                                        : Op(testing_support::random_shape<GroupedGemm>());
  double flops = 0;
  for (const Gradient::Node& part : gradient_of(op, NodeRole::plain)) flops += tensor(part.op);
  RC_ASSERT(std::abs(flops - 2 * tensor(op)) <= 1e-12 * flops);
}

TEST(Gradients, RolesNameThePartsOfAProduct) {
  const auto parts = [](NodeRole role) {
    std::vector<GradientPart> found;
    for (const Gradient::Node& part : gradient_of(Gemm{2, 3, 4, 1, Precision{}, false}, role))
      found.push_back(part.part);
    return found;
  };
  EXPECT_EQ(parts(NodeRole::plain), (std::vector{GradientPart::dx, GradientPart::dw}));
  EXPECT_EQ(parts(NodeRole::scores), (std::vector{GradientPart::dq, GradientPart::dk}));
  EXPECT_EQ(parts(NodeRole::context), (std::vector{GradientPart::dp, GradientPart::dv}));
}

/// The operator of a row-wise gradient, "" where there is none, "two" ..., or "refused".
std::string gradient_text(RowwiseKind kind, NodeRole role = NodeRole::plain) {
  try {
    std::string text;
    for (const Gradient::Node& part : gradient_of(Rowwise{kind, 2, 3}, role)) {
      text.append(text.empty() ? "" : " ").append(op_name(part.op));
      if (std::get<Rowwise>(part.op).residual) text += "+residual";
    }
    return text;
  } catch (const NotModelled&) {
    return "refused";
  }
}

TEST(Gradients, OfRowWiseKindsAreThoseOfTheirRows) {
  using K = RowwiseKind;
  EXPECT_EQ(gradient_text(K::softmax), "softmax_backward");
  EXPECT_EQ(gradient_text(K::dropout), "dropout_backward");
  EXPECT_EQ(gradient_text(K::scale_mask_softmax_dropout), "scale_mask_softmax_dropout_backward");
  EXPECT_EQ(gradient_text(K::silu), "silu_backward");
  EXPECT_EQ(gradient_text(K::gelu), "gelu_backward");
  EXPECT_EQ(gradient_text(K::relu), "relu_backward");
  EXPECT_EQ(gradient_text(K::squared_relu), "add") << "the same tensors";
  EXPECT_EQ(gradient_text(K::swiglu), "swiglu_backward");
  EXPECT_EQ(gradient_text(K::cross_entropy), "cross_entropy_backward");
  EXPECT_EQ(gradient_text(K::cross_entropy_fused), "") << "it has written it";
  EXPECT_EQ(gradient_text(K::layernorm), "layernorm_backward");
  EXPECT_EQ(gradient_text(K::rmsnorm), "rmsnorm_backward");
  EXPECT_EQ(gradient_text(K::sum_rows), "copy");
  EXPECT_EQ(gradient_text(K::scale), "scale");
  EXPECT_EQ(gradient_text(K::mask), "");
  EXPECT_EQ(gradient_text(K::argmax), "");
  EXPECT_EQ(gradient_text(K::adamw), "refused");
  EXPECT_EQ(gradient_text(K::softmax_backward), "refused");
  EXPECT_EQ(gradient_text(K::add, NodeRole::product), "add add");
  EXPECT_EQ(gradient_text(K::softmax, NodeRole::loss), "");
}

TEST(Gradients, OfACastGoesBack) {
  const Rowwise cast{RowwiseKind::copy, 2, 3, false, DType::bf16, DType::fp32};
  const Gradient gradient = gradient_of(cast, NodeRole::plain);
  EXPECT_EQ(std::get<Rowwise>(gradient.begin()->op).input, DType::fp32);
  EXPECT_EQ(std::get<Rowwise>(gradient.begin()->op).output, DType::bf16);
}

}  // namespace
}  // namespace plumbline::op_table_test
