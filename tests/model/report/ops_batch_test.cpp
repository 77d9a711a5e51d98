#include "model/report/ops_batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "arch/error.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/report/ops_batch_row.hpp"
#include "ops/csv.hpp"
#include "ops/table/text.hpp"

namespace plumbline::ops_batch_test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Machine& machine() {
  static const auto one = make_machine(load_gpu("h200_sxm"), MachineOptions{"own"});
  return one;
}

struct Result {
  BatchOutcome outcome;
  std::string text;
  std::vector<std::string> lines() const {
    std::istringstream in(text);
    std::vector<std::string> all;
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
};

Result predict_text(std::string input, BatchOptions options = {"input.csv", 2}) {
  Result result;
  std::size_t at = 0;
  result.outcome = predict_batch(
      [&](char* to, std::size_t most) {
        const std::size_t got = input.copy(to, most, at);
        at += got;
        return got;
      },
      [&](std::string_view text) { result.text += text; }, machine(), options);
  return result;
}

std::string message_of(const std::string& input) {
  try {
    predict_text(input);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "no error";
}

std::string number(double value) {
  std::string text;
  append_number(text, value);
  return text;
}

TEST(BatchNumber, IsShortAndExactForWholeNumbers) {
  EXPECT_EQ(number(0), "0");
  EXPECT_EQ(number(-0.0), "0");
  EXPECT_EQ(number(1980), "1980");
  EXPECT_EQ(number(137438953472.0), "137438953472");
  EXPECT_EQ(number(2.5), "2.5");
  EXPECT_EQ(number(-2.5), "-2.5");
  EXPECT_EQ(number(198.34136), "198.3414");
  EXPECT_EQ(number(9.99999999), "10");
  EXPECT_EQ(number(0.000123456789), "0.0001234568");
}

TEST(BatchNumber, IsNeverInfiniteOrNotANumber) {
  EXPECT_THROW(number(std::numeric_limits<double>::infinity()), std::logic_error);
  EXPECT_THROW(number(std::nan("")), std::logic_error);
}

RC_GTEST_PROP(BatchNumber, ReadsBackToSevenDigits, ()) {
  const double exponent = *rc::gen::inRange(-200, 250) / 10.0;
  const double value = (*rc::gen::inRange(1, 1000000)) * std::pow(10.0, exponent - 6);
  const double back = std::stod(number(value));
  RC_ASSERT(std::abs(back - value) <= 1e-6 * std::abs(value));
}

TEST(OpsBatch, AddsTheSameFiguresAsASinglePrediction) {
  const Result result = predict_text("op,dtype,shape\ngemm,bf16,M=64;N=4096;K=4096\n");
  std::string expected = "gemm,bf16,M=64;N=4096;K=4096,";
  append_figures(expected, predict(parse_op("gemm", "bf16", "M=64;N=4096;K=4096"), machine()));
  ASSERT_EQ(result.lines().size(), 2u);
  EXPECT_EQ(result.lines()[0], "op,dtype,shape," + std::string(kFigureColumns));
  EXPECT_EQ(result.lines()[1], expected);
  EXPECT_EQ(result.outcome.rows, 1);
  EXPECT_EQ(result.outcome.refused, 0);
}

TEST(OpsBatch, PassesEveryFieldThroughAsItStands) {
  const Result result = predict_text("note,shape, x ,op\n\"a \"\"b\"\", c\",\"M=1,N=64,K=64\", 007 ,gemm\r\n");
  EXPECT_THAT(result.lines().at(1), StartsWith("\"a \"\"b\"\", c\",\"M=1,N=64,K=64\", 007 ,gemm,"));
  EXPECT_THAT(result.lines().at(1), EndsWith(","));  // no error
}

TEST(OpsBatch, ReadsAByteOrderMarkCarriageReturnsAndALastLineWithoutEnd) {
  const Result result = predict_text("\xEF\xBB\xBFop,shape\r\ncopy,rows=8;cols=64\r\n\r\ncopy,rows=8;cols=64");
  EXPECT_EQ(result.outcome.rows, 2);
  EXPECT_EQ(result.outcome.refused, 0);
  EXPECT_EQ(result.lines().at(1), result.lines().at(2));
  EXPECT_EQ(result.text.find('\r'), std::string::npos);
}

TEST(OpsBatch, WritesTheReasonIntoABadRowAndGoesOn) {
  const Result result = predict_text("op,shape\ngem,M=1;N=64;K=64\ngemm,M=1;N=0;K=64\ncopy,rows=8;cols=64\n");
  EXPECT_EQ(result.outcome.rows, 3);
  EXPECT_EQ(result.outcome.refused, 2);
  EXPECT_EQ(result.outcome.bugs, 0);
  EXPECT_THAT(result.lines().at(1),
              AllOf(StartsWith("gem,M=1;N=64;K=64" + std::string(kNoFigures)), HasSubstr("did you mean 'gemm'?")));
  EXPECT_THAT(result.lines().at(2), AllOf(StartsWith("gemm,M=1;N=0;K=64" + std::string(kNoFigures)), HasSubstr("N")));
  EXPECT_THAT(result.lines().at(3), EndsWith(","));
}

TEST(OpsBatch, OutputIsRectangularWhateverTheRows) {
  const Result result = predict_text(
      "id,op,shape\n1,gemm,M=1,N=64,K=64\n2,gemm\n3\" x,gemm,M=1\n\"4,gemm,M=1\n\"5\",copy,rows=8;cols=64\n");
  CsvReader reader(result.text, "output");
  const CsvHeader header(reader);
  EXPECT_EQ(header.size(), 3u + 12u);
  const std::size_t error = header.require("error");
  std::vector<std::string> errors;
  while (reader.next()) {
    ASSERT_EQ(reader.fields().size(), header.size()) << reader.record();
    errors.emplace_back(reader.fields()[error]);
  }
  ASSERT_EQ(errors.size(), 5u);
  EXPECT_THAT(errors[0], HasSubstr("row has 5 fields, the header 3"));
  EXPECT_THAT(errors[1], HasSubstr("row has 2 fields, the header 3"));
  EXPECT_THAT(errors[2], HasSubstr("quote"));
  EXPECT_THAT(errors[3], HasSubstr("quote"));
  EXPECT_EQ(errors[4], "");
  EXPECT_EQ(result.outcome.refused, 4);
}

TEST(OpsBatch, RefusesAHeaderWithoutItsColumnsBeforeWriting) {
  EXPECT_THAT(message_of(""), HasSubstr("input.csv: expected a header"));
  EXPECT_THAT(message_of("op,dtype\n"), HasSubstr("input.csv: expected a column 'shape'"));
  EXPECT_THAT(message_of("opp,shape\n"), HasSubstr("expected a column 'op' (did you mean 'opp'?)"));
  EXPECT_THAT(message_of("op,shape,op\n"), HasSubstr("'op'"));
}

TEST(OpsBatch, AHeaderAloneIsAnEmptyTable) {
  EXPECT_EQ(predict_text("op,shape\n").text, "op,shape," + std::string(kFigureColumns) + "\n");
  EXPECT_EQ(predict_text("op,shape").lines().size(), 1u);
}

std::string many_rows(int count) {
  std::string text = "id,op,shape\n";
  for (int i = 0; i < count; ++i) {
    text +=
        std::to_string(i) + (i % 7 == 3 ? ",nonsense" : ",copy") + ",rows=" + std::to_string(i % 50 + 1) + ";cols=64";
    text += i % 11 == 5 ? "\r\n" : "\n";
  }
  return text;
}

TEST(OpsBatch, BlocksAndWorkersDoNotChangeTheOutput) {
  const std::string input = many_rows(500);
  const Result whole = predict_text(input, {"input.csv", 1});
  EXPECT_EQ(whole.outcome.rows, 500);
  EXPECT_EQ(whole.outcome.refused, 71);
  for (const std::size_t block : {1u, 10u, 37u, 256u, 4096u}) {
    for (const int workers : {1, 2, 5}) {
      const Result cut = predict_text(input, {"input.csv", workers, block});
      EXPECT_EQ(cut.text, whole.text) << block << " bytes a block, " << workers << " workers";
      EXPECT_EQ(cut.outcome.refused, whole.outcome.refused);
    }
  }
}

TEST(OpsBatch, AnUnclosedQuoteCostsOneLineEvenAcrossBlocks) {
  std::string input = "op,shape\n\"copy,rows=8;cols=64\n";
  for (int i = 0; i < 300; ++i) input += "copy,rows=8;cols=64\n";
  const Result result = predict_text(input, {"input.csv", 2, 64, 1024});
  EXPECT_EQ(result.outcome.rows, 301);
  EXPECT_EQ(result.outcome.refused, 1);
}

// M1 of the attack: all rows were lost, with exit code 0.
TEST(OpsBatch, LinesThatEndInCarriageReturnsAreRefused) {
  for (const char* text : {"op,shape,note\rcopy,rows=8;cols=64,x\r", "op,shape\rcopy,rows=8;cols=64",
                           "op,shape\rcopy,rows=8;cols=64\ncopy,rows=8;cols=64\n"}) {
    EXPECT_THAT(message_of(text), StartsWith("input.csv:1: expected lines that end in LF or CRLF"));
  }
  EXPECT_EQ(predict_text("op,shape,\"a\rb\"\ncopy,rows=8;cols=64,x\n").outcome.refused, 0) << "quoted: part of a name";
  // A header with a line feed and rows without: one row, of too many fields.
  const Result mixed = predict_text("op,shape\ncopy,rows=8;cols=64\rcopy,rows=8;cols=64\r");
  EXPECT_EQ(mixed.outcome.rows, mixed.outcome.refused);
}

// L4: a line over 4 MiB ended the run, without its number, when earlier rows were out already.
TEST(OpsBatch, ALineThatIsTooLongCostsItselfOnly) {
  const BatchOptions small{"input.csv", 2, 64, 1024};
  std::string input = "id,op,shape\n1,copy,rows=8;cols=64\n2,copy,rows=8;cols=64\n3," + std::string(5000, 'x') + "\n";
  for (int i = 4; i < 100; ++i) input += std::to_string(i) + ",copy,rows=8;cols=64\n";
  const Result result = predict_text(input, small);
  EXPECT_EQ(result.outcome.rows, 99);
  EXPECT_EQ(result.outcome.refused, 1);
  EXPECT_EQ(result.lines().size(), 100U);
  EXPECT_THAT(result.lines().at(3),
              AllOf(StartsWith("\"3,xxxxx"), HasSubstr("...\",,,"), EndsWith("line 4: longer than a row may be")));
  for (std::size_t i : {1U, 2U, 4U, 99U}) EXPECT_THAT(result.lines().at(i), StartsWith(std::to_string(i) + ",copy,"));
  EXPECT_EQ(predict_text(input.substr(0, input.find("\n4,")), small).outcome.refused, 1) << "at the end of the file";
}

TEST(OpsBatch, AnEndlessLineIsRefusedWithItsNumber) {
  std::string header = "op,shape\n";
  const auto endless = [&](char* to, std::size_t most) {
    const std::size_t taken = header.copy(to, most);
    header.erase(0, taken);
    std::fill(to + taken, to + most, 'x');
    return most;
  };
  try {
    predict_batch(endless, [](std::string_view) {}, machine(), {"input.csv", 1});
    FAIL() << "ended";
  } catch (const BadInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("input.csv:2: a line is longer than 64 MiB"));
  }
}

// L5: a carriage return in a field split the row for other readers.
TEST(OpsBatch, ABareCarriageReturnLeavesInQuotes) {
  const Result result = predict_text("note,op,shape\na\rb,copy,rows=8;cols=64\n\"c\rd\",copy,rows=8;cols=64\n");
  EXPECT_EQ(result.outcome.refused, 0);
  EXPECT_THAT(result.text, AllOf(HasSubstr("\n\"a\rb\",copy,"), HasSubstr("\n\"c\rd\",copy,")));
  EXPECT_THAT(predict_text("note,op,shape\na\rb,copy,rows=8,cols=64\n").text,  // one field too many
              HasSubstr("\n\"a\rb\",copy,\"rows=8,cols=64\","));
}

// L5: the output had two columns of that name.
TEST(OpsBatch, AColumnOfAnAddedNameIsRefused) {
  EXPECT_EQ(message_of("op,shape,latency_us\n"),
            "input.csv: column 'latency_us' is one that is added here: rename it, or leave it out");
  EXPECT_THAT(message_of("error,op,shape\n"), HasSubstr("column 'error'"));
}

TEST(OpsBatch, PassesOnWhatTheSinkThrows) {
  const std::string input = many_rows(500);
  std::size_t at = 0;
  int writes = 0;
  const auto source = [&](char* to, std::size_t most) {
    const std::size_t got = input.copy(to, most, at);
    at += got;
    return got;
  };
  const auto full_disk = [&](std::string_view) {
    if (++writes == 3) throw BadInput("disk full");
  };
  EXPECT_THROW(predict_batch(source, full_disk, machine(), {"input.csv", 2, 256}), BadInput);
  EXPECT_EQ(writes, 3);
}

TEST(OpsBatch, PassesOnWhatTheSourceThrows) {
  int reads = 0;
  const auto broken = [&](char* to, std::size_t most) -> std::size_t {
    if (++reads == 3) throw BadInput("read failed");
    const std::string row = reads == 1 ? "op,shape\n" : "copy,rows=8;cols=64\n";
    return row.copy(to, most);
  };
  EXPECT_THROW(predict_batch(broken, [](std::string_view) {}, machine(), {"input.csv", 2, 8}), BadInput);
}

}  // namespace
}  // namespace plumbline::ops_batch_test
