#include "validate/compare/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "arch/json_reader.hpp"

namespace plumbline::report_test {
namespace {

using ::testing::HasSubstr;

Report report_of_two() {
  std::vector<Comparison> rows(2);
  for (Comparison& row : rows) {
    row.gpu = "h200_sxm";
    row.op = "gemm";
    row.dtype = "bf16";
    row.shape = "M=16;N=512;K=256";
    row.place = "a.csv:2";
    row.measured = 20.0 * units::us;
    row.predicted = row.low = 20.0 * units::us;
    row.high = 30.0 * units::us;
    row.roofline = 10.0 * units::us;
    row.limiter = "dram";
  }
  rows[1].predicted = 25.0 * units::us;
  rows[1].low = 22.0 * units::us;
  rows[1].shape = "M=32;N=512;K=\"256\"";
  Report result;
  ReportSummary& report = result.summary;
  report.files = {"a.csv"};
  report.stack = "trt-llm";
  report.kernels = "library";
  report.clock = "as measured";
  report.classes = summarize(rows);
  report.assumptions = {"something was assumed"};
  report.compared = 2;
  report.bad = 1;
  return result;
}

TEST(JsonReport, HasSchemaCountsAndFigures) {
  const JsonDocument document = JsonDocument::parse(json_report(report_of_two()), "report");
  const JsonValue root = document.root();
  EXPECT_EQ(root.at("schema").as_string(), "plumbline.validate.v1");
  EXPECT_EQ(root.at("rows").at("compared").as_integer(), 2);
  EXPECT_EQ(root.at("rows").at("bad").as_integer(), 1);
  ASSERT_EQ(root.at("classes").size(), 1U);
  const JsonValue c = root.at("classes").elements()[0];
  EXPECT_EQ(c.at("size").as_string(), "10-100us");
  EXPECT_EQ(c.at("count").as_integer(), 2);
  EXPECT_NEAR(c.at("mape").as_number(), 0.125, 1e-12);
  EXPECT_NEAR(c.at("within_band").as_number(), 0.5, 1e-12);
  EXPECT_FALSE(c.has("spearman"));  // null: two rows say nothing about rank
  EXPECT_NEAR(c.at("worst").at("ratio").as_number(), 1.25, 1e-12);
  EXPECT_NEAR(c.at("worst").at("measured_s").as_number(), 20e-6, 1e-15);
  EXPECT_EQ(c.at("worst").at("shape").as_string(), "M=32;N=512;K=\"256\"");
}

TEST(JsonReport, SurvivesNamesThatAreNotUtf8) {
  Report report = report_of_two();
  report.summary.files = {"\xFF.csv"};
  EXPECT_THAT(json_report(report), HasSubstr("\\ufffd.csv"));
}

TEST(TableReport, LinesUpAndSaysWhatWasLeftOut) {
  const std::string text = table_report(report_of_two());
  EXPECT_THAT(text, HasSubstr("2 rows compared, 1 could not be read"));
  EXPECT_THAT(text, HasSubstr("assumed: something was assumed"));
  const std::size_t heading = text.find("gpu  ");
  const std::size_t line = text.find("h200_sxm");
  ASSERT_NE(heading, std::string::npos);
  ASSERT_NE(line, std::string::npos);
  EXPECT_EQ(text.find("worst", heading) - heading, text.find("x1.25", line) - line);
  // median of |ln 1| and |ln 1.25| in percent, bias, band, roofline |ln 1/2|
  const std::string row = text.substr(line, text.find('\n', line) - line);
  EXPECT_THAT(row, HasSubstr(" 11.2 "));
  EXPECT_THAT(row, HasSubstr(" +11.2 "));
  EXPECT_THAT(row, HasSubstr(" 50.0 "));
  EXPECT_THAT(row, HasSubstr(" 69.3 "));
}

TEST(CsvReport, QuotesAndHasAsManyFieldsAsTheHeading) {
  const std::string text = csv_report(report_of_two());
  EXPECT_THAT(text, HasSubstr("\"M=32;N=512;K=\"\"256\"\"\""));
  const auto newline = text.find('\n');
  const auto commas = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
  EXPECT_EQ(commas(text.substr(0, newline)), commas(text.substr(newline + 1)));
}

TEST(CsvRows, AFailedRowHasItsReasonAndNoFigures) {
  Report report;
  ReportRow& row = report.rows.emplace_back();
  row.measured.origin.id = "gemm:7";
  row.measured.origin.stack = "trtllm";
  row.measured.clock_known = false;
  row.compared.op = "gemm";
  row.compared.place = "a.csv:2";
  row.compared.measured = 20.0 * units::us;
  row.compared.error = "no path, none";
  const std::string text = csv_rows(report);
  EXPECT_THAT(text, HasSubstr("\na.csv:2,gemm:7,,gemm,,,trtllm,,,,20,,,,,,,,\"no path, none\"\n"));
}

}  // namespace
}  // namespace plumbline::report_test
