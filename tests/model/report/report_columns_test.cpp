#include "model/report/columns.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

namespace plumbline::report_columns_test {
namespace {

TEST(Columns, PadToTheWidestCellAndLeaveNoTrailingBlanks) {
  Columns table({{"name"}, {"time", Columns::Align::right}, {"note"}});
  table.add({"gemm", "1.5 ms", "x"});
  table.add({"attention", "7 us"});
  EXPECT_EQ(table.text(2, {}),
            "  name         time  note\n"
            "  gemm       1.5 ms  x\n"
            "  attention    7 us\n");
}

TEST(Columns, RefuseARowThatDoesNotFit) {
  Columns table({{"a"}});
  EXPECT_THROW(table.add({"1", "2"}), std::logic_error);
  EXPECT_THROW(table.add({}), std::logic_error);
}

TEST(Columns, ColourOnlyTheTitlesAndOnlyWhenAsked) {
  Columns table({{"a"}});
  table.add({"b"});
  EXPECT_EQ(table.text(0, {}), "a\nb\n");
  EXPECT_EQ(table.text(0, TextStyle{true}), "\x1b[1ma\x1b[0m\nb\n");
}

TEST(Wrapped, BreaksAtBlanksBeforeTheWidth) {
  EXPECT_EQ(wrapped("one two three", 20, 4), "one two three");
  EXPECT_EQ(wrapped("one two three", 12, 4), "one two\n    three");
  EXPECT_EQ(wrapped("", 10, 4), "");
}

TEST(Wrapped, KeepsAWordThatIsTooLongWhole) {
  EXPECT_EQ(wrapped("a incomprehensibilities b", 10, 2), "a\n  incomprehensibilities\n  b");
}

TEST(Fitted, WrapsOnlyTheLongLinesDeeperThanTheyStart) {
  const std::string longer(kPageWidth - 10, 'x');
  EXPECT_EQ(fitted("short\n  a " + longer + " end of it\nlast"), "short\n  a " + longer + "\n      end of it\nlast\n");
}

TEST(Labelled, TextStartsInItsColumnOnEveryLine) {
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word ";
  std::istringstream lines(labelled("a label", words + "end"));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line.substr(0, 22), "  a label         word");
  while (std::getline(lines, line)) {
    EXPECT_LE(line.size(), kPageWidth);
    EXPECT_EQ(line.find_first_not_of(' '), 18u);
  }
}

TEST(Bullets, SayNothingAboutNothing) {
  EXPECT_EQ(bullets("assumptions", {}, {}), "");
  EXPECT_EQ(bullets("assumptions", {"one thing"}, {}), "assumptions\n  - one thing\n");
}

TEST(Percent, HasTwoOrThreeDigits) {
  EXPECT_EQ(percent(0), "0 %");
  EXPECT_EQ(percent(0.0001), "<0.1 %");
  EXPECT_EQ(percent(0.0004), "<0.1 %");
  EXPECT_EQ(percent(0.0006), "0.1 %");
  EXPECT_EQ(percent(0.004), "0.4 %");
  EXPECT_EQ(percent(-0.004), "-0.4 %");
  EXPECT_EQ(percent(0.0312), "3.1 %");
  EXPECT_EQ(percent(0.375), "38 %");
  EXPECT_EQ(percent(0.0999), "10 %");
  EXPECT_EQ(percent(1), "100 %");
}

}  // namespace
}  // namespace plumbline::report_columns_test
