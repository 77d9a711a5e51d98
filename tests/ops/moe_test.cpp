// Who gets which rows in a mixture of experts, and what one call of it must do.
#include "ops/shape/moe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>

#include "arch/error.hpp"
#include "ops/facts/work.hpp"
#include "ops/table/table.hpp"
#include "ops/table/text.hpp"

namespace plumbline::moe_test {
namespace {

using ::testing::ElementsAre;

Moe sized(std::int64_t tokens, std::int64_t experts, std::int64_t topk, std::int64_t ep = 1) {
  Moe s;
  s.tokens = tokens;
  s.hidden = 16;
  s.width = 32;
  s.experts = experts;
  s.topk = topk;
  s.ep = ep;
  return s;
}

TEST(Moe, BalancedRowsAreThoseOfTheBenchmark) {
  // stride 4: token t takes experts 4t/3 and 4t/3 + 4
  EXPECT_THAT(expert_rows(sized(3, 8, 2)).rows, ElementsAre(1, 1, 1, 0, 1, 1, 1, 0));
  // nine tokens: one each for every turn, and the ninth starts over
  EXPECT_THAT(expert_rows(sized(9, 8, 2)).rows, ElementsAre(3, 2, 2, 2, 3, 2, 2, 2));
  const ExpertRows half = expert_rows(sized(3, 8, 2, 2));
  EXPECT_THAT(half.rows, ElementsAre(1, 1, 1, 0));
  EXPECT_EQ(half.total(), 3);
  EXPECT_EQ(half.touched(), 3);
}

TEST(Moe, SkewMovesRowsFromExpertToExpertAndLosesNone) {
  Moe s = sized(40, 8, 2);
  s.skew = 100;
  // ten rows each in the mean: 18.75, 16.25, 13.75, 11.25, 8.75, 6.25, 3.75, 1.25, and what is rounded down is the next
  // one's
  EXPECT_THAT(expert_rows(s).rows, ElementsAre(18, 17, 13, 12, 8, 7, 3, 2));
  s.skew = 50;
  s.ep = 2;
  EXPECT_THAT(expert_rows(s).rows, ElementsAre(13, 12, 8, 7)) << "about the rank's own mean";
}

TEST(Moe, GatedIsAnotherWordForItsMatrices) {
  const char* sizes = "T=8;H=64;I=32;E=8;topk=2";
  const auto read = [&](const std::string& more) { return std::get<Moe>(parse_op("moe", "bf16", sizes + more)); };
  EXPECT_EQ(read(";gated=0").matrices, 2);
  EXPECT_EQ(read(";gated=1"), read(""));
  EXPECT_EQ(read(";mats=2;gated=0"), read(";mats=2"));
  EXPECT_EQ(shape_text(read(";skew=30;gated=0")), "T=8;H=64;I=32;E=8;topk=2;mats=2;skew=30");
  EXPECT_THROW(read(";mats=2;gated=1"), BadInput);
  EXPECT_THROW(read(";gated=1;mats=2"), BadInput);
  EXPECT_THROW(read(";skew=30;alpha_pct=100"), BadInput);
  EXPECT_THROW((void)parse_op("moe", "bf16", "T=8;H=64;I=32;E=3;topk=2;skew=60"), BadInput) << "3.2 tokens of 3";
}

TEST(Moe, TilesAreWholeForEachExpert) {
  const ExpertRows rows{{1, 17, 0, 16, 1, 1, 1, 1}, 2};  // two draws of four experts
  EXPECT_EQ(rows.tiles(16), (1 + 2 + 0 + 1 + 4) / 2.0);
  EXPECT_EQ(rows.total(), 19);
  EXPECT_EQ(rows.touched(), 3.5);
}

RC_GTEST_PROP(MoeRows, EveryTokenHasItsExpertsAndNoneTwice, ()) {
  Moe s = sized(*rc::gen::inRange<std::int64_t>(1, 3000), *rc::gen::inRange<std::int64_t>(1, 300), 1);
  s.topk = *rc::gen::inRange<std::int64_t>(1, std::min<std::int64_t>(s.experts, 12) + 1);
  s.alpha_percent = *rc::gen::element<std::int64_t>(0, 50, 100, 101, 120, 200);
  s.leftover = *rc::gen::inRange<std::int64_t>(0, 3);
  if (s.alpha_percent == 0 && 2 * s.topk <= s.experts) s.skew = *rc::gen::inRange(0, 101);
  const ExpertRows rows = expert_rows(s);
  RC_ASSERT(rows.rows.size() == static_cast<std::size_t>(rows.draws) * static_cast<std::size_t>(s.experts));
  RC_ASSERT(rows.total() == static_cast<double>(s.tokens * s.topk));
  for (const std::int64_t each : rows.rows) RC_ASSERT(each >= 0 && each <= s.tokens);
  RC_ASSERT(rows.tiles(1) == rows.total());
}

RC_GTEST_PROP(MoeRows, TheBusiestRankHasItsShareAtLeast, ()) {
  Moe s = sized(*rc::gen::inRange<std::int64_t>(1, 3000), 64, 4, *rc::gen::element<std::int64_t>(2, 8, 64));
  s.alpha_percent = *rc::gen::element<std::int64_t>(50, 101, 120);
  s.leftover = *rc::gen::inRange<std::int64_t>(0, 3);
  RC_ASSERT(expert_rows(s).total() * static_cast<double>(s.ep) >= static_cast<double>(s.tokens * s.topk) - 1e-9);
}

// One token of 4096 experts: every share of its eight rows rounds to none, so that all are left over.
TEST(Moe, LeftoversGoWhereTheyAreSaidTo) {
  Moe s = sized(1, 4096, 8, 8);
  s.alpha_percent = 120;
  EXPECT_EQ(expert_rows(s).total(), 1) << "a row for each rank";
  for (const std::int64_t first : {1, 2}) {
    s.leftover = first;
    EXPECT_EQ(expert_rows(s).total(), 8) << "the first eight experts are alike";
    EXPECT_EQ(expert_rows(s).touched(), 8);
  }
}

// The favourites of a steep law may take no more rows than there are tokens: billions are over, of which the others take
// their turns. Found by a fuzzer, which waited for them to be counted one by one.
TEST(Moe, BillionsOfLeftoversAreGivenOut) {
  Moe s = sized(std::int64_t{1} << 24, 4096, 4000);
  s.alpha_percent = 300;
  for (const std::int64_t first : {1, 2}) {
    s.leftover = first;
    const ExpertRows rows = expert_rows(s);
    EXPECT_EQ(rows.total(), static_cast<double>(s.tokens * s.topk));
    EXPECT_EQ(*std::max_element(rows.rows.begin(), rows.rows.end()), s.tokens);
  }
}

TEST(Moe, LeftoversOfThoseWithoutAnyTouchMoreExperts) {
  Moe s = sized(8, 256, 8, 8);
  s.alpha_percent = 101;
  s.leftover = 1;
  const double liked_most = expert_rows(s).touched();
  s.leftover = 2;
  EXPECT_GT(expert_rows(s).touched(), 1.5 * liked_most);
}

TEST(Moe, WorkByHand) {
  Moe s;
  s.tokens = 3;
  s.hidden = 2;
  s.width = 8;
  s.experts = 4;
  s.topk = 2;
  s.tp = 2;
  // stride 2: tokens take 0 and 2, 1 and 3, then 0 and 2 again (3 tokens, no fewer than the stride)
  EXPECT_THAT(expert_rows(s).rows, ElementsAre(2, 1, 2, 1));
  const Work w = work(Op(s));
  EXPECT_EQ(w.tensor.in(units::FLOP), 6 * 3 * 2 * 2 * 4);    // rows x matrices x 2 H I/tp
  EXPECT_EQ(w.fp32.in(units::FLOP), 6 * 4 * 3 + 2 * 6 * 2);  // silu(gate) x up; the weighted sum
  EXPECT_EQ(w.sfu, 2 * 6 * 4);
  EXPECT_EQ(w.read.in(units::B), 2 * (3 * 4 + 3 * 2 + 4 * 3 * 2 * 4));  // logits, tokens, weights
  EXPECT_EQ(w.write.in(units::B), 2 * 3 * 2);
}

TEST(Moe, ScalesOf32ValuesAreAByteEach) {
  const char* sizes = "T=64;H=64;I=96;E=8;topk=2";
  const auto read = [&](const std::string& more) {
    return work(parse_op("moe", "fp8", sizes + more)).read.in(units::B);
  };
  EXPECT_EQ(read(";block=32") - read(""), 8 * (2 * 96 * 2 + 64 * 3))
      << "eight experts, two matrices one way, one the other";
  EXPECT_EQ(read(";weight=mxfp4;block=32"), read(";weight=mxfp4")) << "4.25 bits of a weight have its scale in them";
  EXPECT_THROW(parse_op("moe", "bf16", std::string(sizes) + ";block=32"), BadInput);
  EXPECT_THROW(parse_op("moe", "fp8", std::string(sizes) + ";block=64"), BadInput);
}

TEST(Moe, TextIsReadBackAndRelationsAreChecked) {
  const Op op = parse_op("moe", "fp8", "T=5;H=64;I=32;E=8;topk=2;tp=2;ep=4;mats=2;alpha_pct=101;block=128");
  EXPECT_EQ(std::get<Moe>(op).own_width(), 16);
  EXPECT_EQ(parse_op("moe", "fp8", shape_text(op)), op);
  EXPECT_THROW(parse_op("moe", "bf16", "T=5;H=64;I=32;E=8;topk=9"), BadInput);
  EXPECT_THROW(parse_op("moe", "bf16", "T=5;H=64;I=32;E=8;topk=2;ep=3"), BadInput);
  EXPECT_THROW(parse_op("moe", "bf16", "T=5;H=64;I=32;E=8;topk=2;mats=4"), BadInput);
}

}  // namespace
}  // namespace plumbline::moe_test
