// Pages as predict-model prints them.
#include <gtest/gtest.h>

#include "tests/support/run_program.hpp"
#include "tests/support/strict_markup.hpp"

namespace plumbline::html_command_test {
namespace {

TEST(Pages, AreWhatTheCommandsPrint) {
  const struct {
    std::vector<std::string> args;
    int code;
    const char* text;
  } cases[] = {
      {{"llm", "--model", "deepseek-v3", "--gpu", "h200", "--phase", "decode"}, 1, "DOES NOT FIT"},
      {{"llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "decode", "--explain", "attention"}, 0, "Why"},
      {{"op", "gemm", "M=64", "N=4096", "K=4096", "--gpu", "h200"}, 0, "of the roofline"},
      {{"gpu", "h200"}, 0, "dense bf16"},
  };
  for (const auto& c : cases) {
    std::vector<std::string> args = c.args;
    args.insert(args.end(), {"--format", "html"});
    const test::ProgramResult result = test::run_program("predict-model", args);
    EXPECT_EQ(result.code, c.code) << result.err;
    test::Markup read;
    ASSERT_NO_THROW(read = test::read_markup(result.out)) << c.args[0];
    EXPECT_TRUE(read.has_text(c.text)) << c.args[0];
  }
}

}  // namespace
}  // namespace plumbline::html_command_test
