// Keys made from members: types, usual values, and which types an operator's dtype sets.
#include "ops/facts/key.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ops/facts/facts.hpp"
#include "ops/facts/precision.hpp"
#include "ops/op/attention_math.hpp"
#include "ops/op/counting.hpp"

namespace plumbline::op_key_test {
namespace {

/// One member of each type a key can have, and one inside another.
struct Sample {
  std::int64_t size = 3;
  bool flag = true;
  double percent = 12.5;
  DType dtype = DType::fp16;
  RecurrentKind kind = RecurrentKind::mamba1;
  int append = -1;
  Precision precision;
};

TEST(Keys, TypesFollowFromTheMembers) {
  EXPECT_EQ(key<&Sample::size>("size").type, KeyType::size);
  EXPECT_EQ(key<&Sample::flag>("flag").type, KeyType::flag);
  EXPECT_EQ(key<&Sample::append>("append").type, KeyType::flag);
  EXPECT_EQ(key<&Sample::percent>("percent").type, KeyType::percent);
  EXPECT_EQ(key<&Sample::dtype>("dtype").type, KeyType::dtype);
  EXPECT_EQ(key<&Sample::kind>("kind").type, KeyType::recurrence);
  EXPECT_EQ(optional_count<&Sample::size>("size").type, KeyType::count);
  EXPECT_TRUE(key<&Sample::size>("size").required);
  EXPECT_FALSE(optional_key<&Sample::size>("size").required);
  EXPECT_FALSE(optional_count<&Sample::size>("size").required);
}

TEST(Keys, ReadAndWriteMembersAndMembersOfMembers) {
  Sample s;
  const Key size = key<&Sample::size>("size"), weight = key<&Sample::precision, &Precision::weight>("weight");
  size.set(&s, 7);
  weight.set(&s, static_cast<double>(DType::int4));
  EXPECT_EQ(s.size, 7);
  EXPECT_EQ(s.precision.weight, DType::int4);
  EXPECT_EQ(s.precision.input, DType::bf16);
  EXPECT_EQ(size.get(&s), 7);
  EXPECT_EQ(weight.get(&s), static_cast<double>(DType::int4));
}

TEST(Keys, UsualIsTheStructsOwnValueOrWhatIsGiven) {
  Sample s;
  s.size = 9;
  EXPECT_EQ(optional_key<&Sample::size>("size").usual(&s), 3);
  EXPECT_EQ(optional_key<&Sample::append>("append").usual(&s), -1);
  EXPECT_EQ(optional_key<&Sample::percent>("percent", same_as<&Sample::size>).usual(&s), 9);
}

/// Of fp8 in, int4 weights, bf16 out, fp8 maths the nearest name is fp8: the key of the weight alone is not usual.
TEST(Keys, PartsOfAPrecisionAreUsualAsTheNearestNameHasThem) {
  Sample s;
  s.precision = {DType::fp8, DType::int4, DType::bf16, DType::fp8};
  const auto usual = [&](const Key& k) { return static_cast<DType>(k.usual(&s)); };
  EXPECT_EQ(usual(precision_key<&Sample::precision, &Precision::weight>("weight")), DType::fp8);
  EXPECT_EQ(usual(precision_key<&Sample::precision, &Precision::input>("in")), DType::fp8);
  EXPECT_EQ(usual(precision_key<&Sample::precision, &Precision::output>("out")), DType::bf16);
}

TEST(Precisions, EveryNameIsItsOwnNearest) {
  for (const std::string_view name : precision_names()) {
    const auto precision = parse_precision(name);
    ASSERT_TRUE(precision.has_value()) << name;
    EXPECT_EQ(base_precision(*precision), name);
    EXPECT_EQ(named_precision_near(*precision), *precision);
  }
}

TEST(Precisions, AreKnownByOtherNamesToo) {
  const std::vector<std::string> names(precision_names().begin(), precision_names().end());
  const auto meant = [&](std::string_view text) { return meant_precision(text, names, true); };
  EXPECT_EQ(meant("fp4"), " (did you mean 'nvfp4' or 'mxfp4'?)") << "a letter less than fp64";
  EXPECT_EQ(meant("mxfp8"), " (did you mean 'fp8' with block=32?)");
  EXPECT_EQ(meant("FP8-Block"), " (did you mean 'fp8' with block=128?)");
  EXPECT_EQ(meant("BF16"), " (did you mean 'bf16'?)");
  EXPECT_EQ(meant("awq"), " (did you mean 'w4a16'?)");
  EXPECT_EQ(meant("nvpf4"), " (did you mean 'nvfp4'?)");
  EXPECT_EQ(meant("posit"), "");
  EXPECT_EQ(meant_precision("mxfp8", names, false), " (did you mean 'mxfp4'?)") << "a model has no such key";
}

TEST(Precisions, TheNearestDiffersInTheFewestParts) {
  EXPECT_EQ(base_precision({DType::fp8, DType::fp8, DType::fp16, DType::fp8}), "fp8");
  EXPECT_EQ(base_precision({DType::bf16, DType::int4, DType::fp32, DType::bf16}), "w4a16");
  EXPECT_EQ(base_precision({DType::fp16, DType::fp16, DType::fp16, DType::bf16}), "fp16");
  EXPECT_EQ(base_precision({DType::fp16, DType::int8, DType::fp16, DType::fp16}), "w8a16") << "kernels that unpack";
  EXPECT_EQ(base_precision({DType::bf16, DType::bf16, DType::fp16, DType::fp16}), "bf16") << "the first of two as near";
  EXPECT_EQ(named_precision_near({DType::fp8, DType::fp8, DType::fp16, DType::fp8}), *parse_precision("fp8"));
}

TEST(Facts, TheDtypeSetsAllTypesThatAShapeHas) {
  const Precision fp8 = *parse_precision("fp8");
  Gemm gemm;
  set_types(gemm, fp8);
  EXPECT_EQ(gemm.precision, fp8);
  AttentionDecode decode;
  set_types(decode, fp8);
  EXPECT_EQ(decode.dtype, DType::fp8);
  EXPECT_EQ(decode.kv_dtype, DType::fp8);
  Recurrence scan;
  set_types(scan, fp8);
  EXPECT_EQ(scan.dtype, DType::fp8);
  EXPECT_EQ(scan.state_dtype, DType::fp32) << "states have a key of their own";
}

TEST(Facts, NamesAreInTheOrderOfTheirKinds) {
  constexpr std::array<OperatorName, 2> kRight{{{"a", 0}, {"b", 1}}}, kWrong{{{"a", 1}, {"b", 0}}};
  EXPECT_TRUE(in_order(kRight));
  EXPECT_FALSE(in_order(kWrong));
}

/// 3 pairs over widths 4 and 2, 5 rows: 2 x 3 x 6; 4 a pair and 2 a row; an exp a pair and a reciprocal a row.
TEST(AttentionMath, CountsPairsAndRows) {
  const Work w = attention_math(3, 5, 4, 2, DType::fp16);
  EXPECT_EQ(w.math, DType::fp16);
  EXPECT_EQ(w.tensor.in(units::FLOP), 36);
  EXPECT_EQ(w.fp32.in(units::FLOP), 4 * 3 + 5 * 2);
  EXPECT_EQ(w.sfu, 3 + 5);
  EXPECT_EQ(attention_output(DType::fp8), DType::bf16);
  EXPECT_EQ(attention_output(DType::int8), DType::bf16);
  EXPECT_EQ(attention_output(DType::fp16), DType::fp16);
}

/// 10 tokens of 6 heads x 8: 3 an element, 4 angles a token once for all heads with a sine and a cosine each.
TEST(AttentionMath, RotationSharesAnglesAmongHeads) {
  Work w;
  add_rotation(w, 10 * 6 * 8, 10, 8);
  EXPECT_EQ(w.fp32.in(units::FLOP), 3 * 480 + 10 * 4);
  EXPECT_EQ(w.sfu, 10 * 8);
  EXPECT_EQ(w.read.in(units::B), 4 * 4);
}

TEST(Counting, ProductsOfDimensionsDoNotOverflow) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  EXPECT_EQ(counting::product_of({kLarge, kLarge, 2}), 0x1p81);
  EXPECT_EQ(counting::product_of({}), 1);
}

}  // namespace
}  // namespace plumbline::op_key_test
