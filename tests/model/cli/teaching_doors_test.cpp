// What predict-model says beside its figures: caps that do not hold, flags that change nothing, advice, whose steps the
// band is of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/files.hpp"
#include "tests/support/run_program.hpp"
#include "tests/support/strict_markup.hpp"

namespace plumbline::teaching_doors_test {
namespace {

using test::ProgramResult;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

ProgramResult decode(const Words& more) {
  Words words{"llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "decode", "--batch", "16"};
  words.insert(words.end(), more.begin(), more.end());
  return test::run_program("predict-model", words);
}

ProgramResult op(const Words& more) {
  Words words{"op", "gemm", "M=4096", "N=4096", "K=4096", "--gpu", "h200"};
  words.insert(words.end(), more.begin(), more.end());
  return test::run_program("predict-model", words);
}

TEST(PowerCap, ThatCannotBeMetIsSaidInEveryOutput) {
  for (const char* format : {"table", "json", "html"}) {
    EXPECT_THAT(decode({"--power-cap", "200", "--format", format}).out, HasSubstr("cannot be met")) << format;
  }
  for (const char* format : {"csv", "trace"}) {
    EXPECT_THAT(decode({"--power-cap", "200", "--format", format}).err, HasSubstr("cannot be met")) << format;
  }
  for (const char* format : {"table", "json", "html"}) {
    EXPECT_THAT(op({"--power-cap", "150", "--clock", "steady", "--format", format}).out, HasSubstr("cannot be met"));
  }
  EXPECT_THAT(decode({"--power-cap", "600"}).out, Not(HasSubstr("cannot be met")));
  const Words batch{"ops", "--gpu", "h200", "--clock", "steady", "--power-cap", "150"};
  const std::string rows = "op,shape\ngemm,M=4096;N=4096;K=4096\n";
  EXPECT_THAT(test::run_program("predict-model", batch, rows).err, HasSubstr("cannot be met in 1 of 1 rows"));
}

TEST(PowerCap, ThatExceedsTheBoardsIsSaidInEveryOutput) {
  for (const char* format : {"table", "json", "html"}) {
    EXPECT_THAT(decode({"--power-cap", "800", "--format", format}).out, HasSubstr("exceeds the board")) << format;
  }
  EXPECT_THAT(decode({"--power-cap", "800", "--format", "csv"}).err, HasSubstr("exceeds the board"));
  EXPECT_THAT(decode({"--power-cap", "700"}).out, Not(HasSubstr("exceeds the board")));
}

TEST(PowerCap, HasNoMeaningInABurst) {
  for (const ProgramResult& result : {op({"--power-cap", "300"}), decode({"--power-cap", "300", "--clock", "burst"})}) {
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("power cap: has no meaning with clock burst"));
    EXPECT_EQ(result.out, "");
  }
}

TEST(Attention, OfAProviderThatRunsNothingIsRefused) {
  const ProgramResult gemm = op({"--attention", "flash-attention"});
  EXPECT_EQ(gemm.code, 2);
  EXPECT_THAT(gemm.err, HasSubstr("--attention flash-attention: runs no operator of gemm"));
  const Words mamba{"llm", "--model", "mamba2-2.7b", "--gpu", "h200", "--phase", "decode", "--attention", "flashinfer"};
  EXPECT_EQ(test::run_program("predict-model", mamba).code, 2);
  EXPECT_EQ(decode({"--attention", "flash-attention"}).code, 0);
  const Words batch{"ops", "--gpu", "h200", "--attention", "flash-attention"};
  EXPECT_THAT(test::run_program("predict-model", batch, "op,shape\ngemm,M=64;N=64;K=64\n").err,
              HasSubstr("ran no operator of these rows"));
}

TEST(WholeSteps, AreNamedInTableJsonAndHtml) {
  for (const char* format : {"table", "json", "html"}) {
    EXPECT_THAT(decode({"--format", format}).out, HasSubstr("steps of trt-llm (dense models)")) << format;
    EXPECT_THAT(decode({"--runtime", "eager", "--format", format}).out,
                HasSubstr("too few whole steps of stack trt-llm"));
  }
  EXPECT_THAT(decode({"--format", "json"}).out, HasSubstr("\"recorded\": true"));
}

TEST(Advice, StandsInTableJsonAndHtml) {
  const auto ragged = [](const char* format) {
    return test::run_program("predict-model", {"op", "gemm", "M=4096", "N=100000", "K=700", "--dtype", "fp16", "--gpu",
                                               "h200", "--format", format})
        .out;
  };
  for (const char* format : {"table", "json", "html"}) EXPECT_THAT(ragged(format), HasSubstr("pad K 700")) << format;
  EXPECT_THAT(ragged("json"), HasSubstr("\"kind\": \"padding\""));
  EXPECT_THAT(op({}).out, Not(HasSubstr("pad ")));
}

/// --phase generate as a page for a meeting: the verdict first, both phases, what binds the time.
TEST(Generate, HasAPage) {
  const ProgramResult result =
      test::run_program("predict-model", {"llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "generate",
                                          "--prompt", "512", "--output", "32", "--format", "html"});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* part : {"TTFT", "TPOT", ">fits<", "By what binds it", "Phases", "Memory", "Assumptions"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_NO_THROW((void)test::MarkupReader(result.out).read());
}

TEST(OwnKernels, AreNotNamedOnACardThatRunsNone) {
  const Words amd{"op", "gemm", "M=64", "N=64", "K=64", "--gpu", "mi300x", "--stack", "own"};
  Words json = amd;
  json.insert(json.end(), {"--format", "json"});
  EXPECT_THAT(test::run_program("predict-model", amd).out,
              HasSubstr("none of this project's kernels runs on this card"));
  EXPECT_THAT(test::run_program("predict-model", amd).out, Not(HasSubstr("kernels own")));
  EXPECT_THAT(test::run_program("predict-model", json).out, HasSubstr("\"kernels\": \"library\""));
}

/// A stack of our kernels alone has nobody to leave a shape to, and does not say that it had.
TEST(OwnKernels, AloneInAStackLeaveNothingToLibraries) {
  test::TemporaryFolder folder;
  const std::string file = folder / "mine.json";
  write_text_file(file, R"({"schema": 1, "name": "mine", "title": "ours alone",
    "providers": [{"provider": "own"}], "prefill_appends": false, "fusion": "typical", "runtime": "graph"})");
  const ProgramResult result = op({"--stack", file});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("library kernels")));
  EXPECT_THAT(result.out, HasSubstr("kernels own alone"));
}

}  // namespace
}  // namespace plumbline::teaching_doors_test
