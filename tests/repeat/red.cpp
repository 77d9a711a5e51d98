// A property that is false for one number in three: tests/repeat/repeat.cmake wants it red, and red again in the same
// way.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

RC_GTEST_PROP(Red, IsFalseForSomeNumbers, ()) {
  // Not shrunk: two runs that end at the same small number would look as if they had drawn the same.
  const int number = *rc::gen::noShrink(rc::gen::inRange(0, 1'000'000));
  RC_LOG() << "number " << number << '\n';
  RC_ASSERT(number % 3 != 1);
}

TEST(Red, IsNotOfTheFailed) { EXPECT_TRUE(true); }
