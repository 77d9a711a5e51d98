// Arithmetic as stack files write it: worked out, and refused.
#include "ops/rewrite/expression.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <string>

#include "arch/error.hpp"

namespace plumbline::expression_test {
namespace {

using ::testing::HasSubstr;

const std::array<std::string, 3> kNames{"rows", "cols", "w"};

double worked_out(const std::string& text) {
  constexpr std::array kValues{700.0, 4096.0, 2.0};
  return Expression(text, kNames)(kValues);
}

std::string refusal(const std::string& text) {
  try {
    (void)Expression(text, kNames);
  } catch (const BadInput& e) {
    return e.what();
  }
  return "(accepted)";
}

TEST(Expression, IsWorkedOut) {
  EXPECT_EQ(worked_out("rows*cols"), 2867200);
  EXPECT_EQ(worked_out("2 + 3 * 4 - 6 / 2"), 11);
  EXPECT_EQ(worked_out("(2 + 3) * (4 - 6) / 2"), -5);
  EXPECT_EQ(worked_out("10 - 3 - 2"), 5);
  EXPECT_EQ(worked_out("ceil(rows*cols/1024)"), 2800);
  EXPECT_EQ(worked_out("ceil(rows/512)"), 2);
  EXPECT_EQ(worked_out("floor(rows/512)"), 1);
  EXPECT_EQ(worked_out("sqrt(16)*3"), 12);
  EXPECT_EQ(worked_out("min(rows, 132) + max(w, 4)"), 136);
  EXPECT_EQ(worked_out(" 4 "), 4);
  EXPECT_EQ(worked_out("1.5e3"), 1500);
}

TEST(Expression, Compares) {
  EXPECT_EQ(worked_out("rows < cols"), 1);
  EXPECT_EQ(worked_out("rows >= cols"), 0);
  EXPECT_EQ(worked_out("3*(w == 2) + (w != 2)"), 3);
  EXPECT_EQ(worked_out("max(w <= 2, w > 2) + 1"), 2);
  EXPECT_THAT(refusal("1 < 2 < 3"), HasSubstr("expected an operator or the end"));
}

TEST(Expression, RefusesWhatIsNone) {
  EXPECT_THAT(refusal(""), HasSubstr("found the end"));
  EXPECT_THAT(refusal("rows*"), HasSubstr("expected a number, a name or '('"));
  EXPECT_THAT(refusal("rows cols"), HasSubstr("expected an operator or the end in 'rows cols', found 'cols'"));
  EXPECT_THAT(refusal("(rows"), HasSubstr("expected ')'"));
  EXPECT_THAT(refusal("row*2"), HasSubstr("nothing is called 'row' (did you mean 'rows'?)"));
  EXPECT_THAT(refusal("min(rows)"), HasSubstr("expected ','"));
  EXPECT_THAT(refusal("-1"), HasSubstr("expected a number"));
  EXPECT_THAT(refusal("nan"), HasSubstr("nothing is called 'nan'"));
  EXPECT_THAT(refusal(std::string(500, '(')), HasSubstr("less nesting"));
  EXPECT_THAT(refusal(std::string(2000, '1')), HasSubstr("at most 1000 characters"));
}

/// The deepest nesting that is read, and the widest stack that it asks for.
RC_GTEST_PROP(Expression, NestsAsDeepAsItSays, ()) {
  const auto depth = *rc::gen::inRange<std::size_t>(0, Expression::kDeepest + 1);
  std::string text;
  for (std::size_t i = 0; i < depth; ++i) text += "1+2*(";
  text += "rows";
  text += std::string(depth, ')');
  double expected = 700;
  for (std::size_t i = 0; i < depth; ++i) expected = 1 + 2 * expected;
  RC_ASSERT(worked_out(text) == expected);
}

}  // namespace
}  // namespace plumbline::expression_test
