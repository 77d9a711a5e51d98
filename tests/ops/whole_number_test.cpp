#include "ops/whole_number.hpp"

#include <gtest/gtest.h>

namespace plumbline::whole_number_test {
namespace {

TEST(WholeNumber, ReadsDigitsAndExponents) {
  EXPECT_EQ(parse_whole("0"), 0);
  EXPECT_EQ(parse_whole("9223372036854775807"), 9223372036854775807);
  EXPECT_EQ(parse_whole("1e6"), 1000000);
  EXPECT_EQ(parse_whole("2.5E5"), 250000);
  EXPECT_EQ(parse_whole("1e+3"), 1000);
}

TEST(WholeNumber, RefusesWhatIsNoneOrCannotBeKeptExactly) {
  for (const char* bad : {"", " 1", "1 ", "-1", "+1", "1.5", "1.0", "1.5e0", "1e-3", "0x10", "1e", "1e16", "inf", "nan",
                          "9223372036854775808", "1k", "1e999"}) {
    EXPECT_EQ(parse_whole(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace plumbline::whole_number_test
