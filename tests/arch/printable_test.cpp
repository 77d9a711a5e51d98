#include "arch/printable.hpp"

#include <algorithm>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <nlohmann/json.hpp>

namespace plumbline::printable_test {
namespace {

TEST(Printable, KeepsTextAndShowsControlCharactersAndStrayBytes) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("h200_sxm: 3.35 TB/s"), "h200_sxm: 3.35 TB/s");
  EXPECT_EQ(printable("größer ≥ 日本 \xF0\x9F\x9A\x80"), "größer ≥ 日本 \xF0\x9F\x9A\x80");
  EXPECT_EQ(printable("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(printable(std::string_view("a\0\n\r\t\x7f", 6)), "a\\x00\\n\\r\\t\\x7f");
  EXPECT_EQ(printable("\xff.json"), "\\xff.json");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\xc2\\x9b31m")
      << "CSI as one C1 character";
  EXPECT_EQ(printable("a\xE2\x80\xAE"
                      "b"),
            "a\\xe2\\x80\\xaeb")
      << "right-to-left override";
  EXPECT_EQ(printable("\xC0\xAF"), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80") << "surrogate";
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "above U+10FFFF";
  EXPECT_EQ(printable("\xE2\x82"), "\\xe2\\x82") << "cut short";
}

std::string any_bytes() {
  return *rc::gen::container<std::string>(rc::gen::map(rc::gen::arbitrary<int>(), [](int i) { return char(i); }));
}

/// Strict UTF-8 as nlohmann_json sees it, and no byte that moves a cursor.
bool fit_to_be_shown(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

RC_GTEST_PROP(Printable, AnyBytesBecomeTextAndTextStays, ()) {
  const std::string once = printable(any_bytes());
  RC_ASSERT(fit_to_be_shown(once));
  RC_ASSERT(printable(once) == once);
}

TEST(MessageLine, KeepsBeginningAndEndOfALongOne) {
  EXPECT_EQ(message_line("predict-model: no"), "predict-model: no\n");
  EXPECT_EQ(message_line("two\nlines"), "two\\nlines\n");
  const std::string exact(kLongestMessage - 1, 'x');
  EXPECT_EQ(message_line(exact), exact + "\n");
  for (const std::size_t size : {500U, 600U, 3000U, 30000000U}) {
    const std::string line = message_line("place: " + std::string(size, 'x') + " (did you mean 'y'?)");
    EXPECT_LE(line.size(), kLongestMessage);
    EXPECT_GE(line.size(), kLongestMessage - 10);
    EXPECT_EQ(line.substr(0, 8), "place: x");
    EXPECT_NE(line.find("x ... x"), line.npos);
    EXPECT_TRUE(line.ends_with(" (did you mean 'y'?)\n"));
  }
}

RC_GTEST_PROP(MessageLine, IsOneShortLineOfTextWhateverItQuotes, ()) {
  std::string text = any_bytes();
  const int doublings = *rc::gen::inRange(0, 8);
  for (int i = 0; i < doublings && text.size() < 20000; ++i) text += text;
  const std::string line = message_line(text);
  RC_ASSERT(line.size() <= kLongestMessage);
  RC_ASSERT(line.back() == '\n');
  RC_ASSERT(fit_to_be_shown(line.substr(0, line.size() - 1)));
}

}  // namespace
}  // namespace plumbline::printable_test
