// Words into a command and its flags: what is refused, in which words, and what the help says.
#include "validate/cli/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/support/refusal.hpp"
#include "validate/cli/message_stream.hpp"

namespace plumbline::command_line_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing_support::refusal;

using Words = std::vector<std::string>;

std::string refused(const Words& words) {
  return refusal([&] { parse_command_line(words); });
}

/// As many operands as the command wants.
Words command(const Mode& mode, const Words& more = {}) {
  Words words{std::string(mode.name)};
  for (std::size_t i = 0; i < mode.least; ++i) words.emplace_back("x");
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// A value that the flag takes.
std::string sound_value(const Flag& flag) {
  const std::string name(flag.name), value(flag.value);
  if (name == "--set") return "memory.bandwidth=6TB/s";
  if (name == "--where") return "op=gemm";
  if (name == "--ops") return "gemm";
  if (name == "--format") return "table";
  return value == "N" || value == "PERCENT" || value == "US" ? "50" : value.substr(0, value.find('|'));
}

Words given(const Flag& flag) {
  Words words{std::string(flag.name)};
  if (!flag.value.empty() || flag.name == "--format") words.push_back(sound_value(flag));
  return words;
}

TEST(CommandLine, EveryFlagIsTakenByTheCommandsThatListItAndByNoOther) {
  int taken = 0, not_taken = 0;
  for (const Mode& mode : modes()) {
    for (const Flag& flag : flag_table()) {
      const bool takes = std::find(mode.takes.begin(), mode.takes.end(), flag.name) != mode.takes.end();
      const std::string said = refused(command(mode, given(flag)));
      if (takes) EXPECT_EQ(said, "(accepted)") << mode.name << " " << flag.name;
      else EXPECT_THAT(said, StartsWith(std::string(flag.name) + ": has no meaning for 'validate")) << mode.name;
      ++(takes ? taken : not_taken);
    }
  }
  EXPECT_GT(taken, 80);
  EXPECT_GT(not_taken, 200);
}

TEST(CommandLine, EveryFlagThatACommandListsIsInTheTable) {
  for (const Mode& mode : modes()) {
    for (const std::string_view flag : mode.takes) EXPECT_NE(find_flag(flag), nullptr) << mode.name << " " << flag;
    EXPECT_EQ(mode.formats.empty(), std::find(mode.takes.begin(), mode.takes.end(), "--format") == mode.takes.end());
  }
}

TEST(CommandLine, AMistakeNamesTheNearest) {
  EXPECT_EQ(refused({"comapre", "x"}), "unknown command 'comapre' (did you mean 'compare'?)");
  EXPECT_THAT(refused({"--against", "x"}), StartsWith("unknown option '--against'; expected a command"));
  EXPECT_EQ(refused({"compare", "x", "--formt", "csv"}), "unknown option '--formt' (did you mean '--format'?)");
  EXPECT_THAT(refused({"compare", "x", "--format", "jsn"}), HasSubstr("(did you mean 'json'?)"));
  EXPECT_THAT(refused({"compare", "x", "--kernels", "libary"}), HasSubstr("(did you mean 'library'?)"));
  EXPECT_THAT(refused({"compare", "x", "--ops", "gem"}), HasSubstr("(did you mean 'gemm'?)"));
  EXPECT_THAT(refused({"help", "repaly"}), HasSubstr("(did you mean 'replay'?)"));
}

TEST(CommandLine, ValuesAndOperandsAreThereOnce) {
  EXPECT_EQ(refused({"compare", "x", "--gpu"}), "--gpu: expected NAME|FILE.json, found nothing");
  EXPECT_EQ(refused({"compare", "x", "--gpu="}), "--gpu: expected NAME|FILE.json, found nothing");
  EXPECT_EQ(refused({"compare", "x", "--gpu", "a", "--gpu", "b"}), "--gpu: given twice");
  EXPECT_THAT(refused({"compare"}), StartsWith("expected FILE..."));
  EXPECT_THAT(refused({"replay", "a.json", "b.json"}), StartsWith("unexpected argument 'b.json'"));
  EXPECT_THAT(refused({"run", "a.csv"}), HasSubstr("flags only"));
  EXPECT_THAT(refused({"run", "--quick=yes"}), HasSubstr("takes no value"));
  const Flags flags =
      parse_command_line({"compare", "a.csv", "--where=S>=127", "--where", "op=gemm", "--", "--odd.csv"}).flags;
  EXPECT_EQ(flags.operands, (Words{"a.csv", "--odd.csv"}));
  ASSERT_EQ(flags.where.size(), 2U);
  EXPECT_EQ(flags.where[0].text, "S>=127");
  EXPECT_EQ(flags.format, "table");
  EXPECT_EQ(parse_command_line({"sides", "-"}).flags.operands, Words{"-"});
}

/// A gate that compares with nan never closes.
TEST(CommandLine, AGateIsAPercentageFromZero) {
  for (const char* number : {"nan", "-5", "inf", "1e999", "", "ten", "0x10", "5%", " 5"}) {
    EXPECT_THAT(refused({"replay", "r.json", "--fail-over", number}), StartsWith("--fail-over: expected ")) << number;
    EXPECT_THAT(refused({"power", "r.json", "--least-cap", number}), StartsWith("--least-cap: expected ")) << number;
    EXPECT_THAT(refused({"power", "r.json", "--most-cap", number}), StartsWith("--most-cap: expected ")) << number;
    EXPECT_THAT(refused({"replay", "r.json", "--min-us", number}), StartsWith("--min-us: expected ")) << number;
  }
  EXPECT_EQ(parse_command_line({"replay", "r.json", "--fail-over", "2.5"}).flags.fail_over_percent, 2.5);
  EXPECT_EQ(parse_command_line({"replay", "r.json", "--fail-over", "0"}).flags.fail_over_percent, 0);
}

TEST(CommandLine, ARangeIsSaidInFewDigits) {
  const std::vector<Words> all{{"run", "--gpus", "0"},
                               {"step", "m", "--batch", "0"},
                               {"step", "m", "--page", "-1"},
                               {"step", "m", "--context", "99999999999999999999"},
                               {"power", "f", "--least-cap", "-1"}};
  for (const Words& words : all) {
    EXPECT_THAT(refused(words), HasSubstr("expected a ")) << words.back();
    EXPECT_LT(refused(words).size(), 120U) << words.back();
  }
}

TEST(Help, AloneAndOfEveryCommandFitsAScreen) {
  std::vector<std::string> pages{general_help()};
  for (const Mode& mode : modes()) pages.push_back(help_of(mode));
  for (const std::string& page : pages) {
    EXPECT_LE(std::count(page.begin(), page.end(), '\n'), 60) << page;
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 110U) << line;
  }
}

TEST(Help, IsWhatIsAskedForInAnyWay) {
  for (const Words& words : {Words{}, Words{"--help"}, Words{"-h"}, Words{"help"}}) {
    EXPECT_EQ(parse_command_line(words).help, general_help());
  }
  for (const Mode& mode : modes()) {
    EXPECT_THAT(general_help(), HasSubstr("\n  " + std::string(mode.name)));
    EXPECT_EQ(parse_command_line({"help", std::string(mode.name)}).help, help_of(mode));
    EXPECT_EQ(parse_command_line({std::string(mode.name), "--nonsense", "--help"}).help, help_of(mode));
    for (const std::string_view flag : mode.takes) EXPECT_THAT(help_of(mode), HasSubstr("  " + std::string(flag)));
  }
  EXPECT_THAT(parse_command_line({"--version"}).help, StartsWith("plumbline "));
}

std::string said(const std::string& text) {
  std::ostringstream to;
  MessageStream(to) << text;
  return to.str();
}

TEST(MessageStream, LinesArePrintableAndShort) {
  EXPECT_EQ(said("validate: a\nvalidate: b\n"), "validate: a\nvalidate: b\n");
  EXPECT_EQ(said("red \x1b[31m\xff\n"), "red \\x1b[31m\\xff\n");
  EXPECT_EQ(said("no\rway\n"), "no\\rway\n");
  EXPECT_LE(said(std::string(100000, 'x') + "\n").size(), 500U);
}

TEST(MessageStream, TheProgressLineIsRewritten) {
  std::ostringstream to;
  MessageStream messages(to);
  messages << "\rvalidate: 1 of 9\x1b" << std::flush << "\r    \r" << std::flush << "done" << std::endl;
  EXPECT_EQ(to.str(), "\rvalidate: 1 of 9\\x1b\r    \rdone\n");
}

}  // namespace
}  // namespace plumbline::command_line_test
