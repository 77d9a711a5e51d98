#include "validate/record/measurement_csv.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/error.hpp"

namespace plumbline::measurement_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kHeader = "op,dtype,shape,measured_us,measured_W,stack,clock,gpu,id\n";

Measurements read(const std::string& lines, const std::vector<std::string>& where = {}) {
  std::vector<RowFilter> filters;
  for (const std::string& text : where) filters.push_back(parse_row_filter(text));
  Measurements out;
  read_measurements(kHeader + lines, "some.csv", filters, out);
  return out;
}

TEST(ReadMeasurements, AllColumnsOfARow) {
  const Measurements m = read("gemm,bf16,N=512;M=16;K=256,12.5,433,trtllm-1.0,steady,h200_sxm,gemm:7\n");
  ASSERT_EQ(m.rows.size(), 1U) << (m.bad.empty() ? "" : m.bad[0]);
  const Measurement& row = m.rows[0];
  const auto& shape = std::get<Gemm>(row.what.op);
  EXPECT_EQ(shape.m, 16);
  EXPECT_EQ(shape.n, 512);
  EXPECT_EQ(shape.k, 256);
  EXPECT_NEAR(row.time.in(units::us), 12.5, 1e-9);
  ASSERT_TRUE(row.power());
  EXPECT_NEAR(row.power()->in(units::W), 433, 1e-9);
  EXPECT_TRUE(row.clock_known);
  EXPECT_EQ(row.what.clock, ClockMode::steady);
  EXPECT_EQ(row.origin.stack, "trtllm-1.0");
  EXPECT_EQ(row.origin.gpu, "h200_sxm");
  EXPECT_EQ(row.origin.id, "gemm:7");
  EXPECT_EQ(row.what.place, "some.csv:2");
}

TEST(ReadMeasurements, EmptyOptionalFieldsAreAbsent) {
  const Measurements m = read("gemm,bf16,M=16;N=512;K=256,12.5,,,,,\n");
  ASSERT_EQ(m.rows.size(), 1U);
  EXPECT_FALSE(m.rows[0].power());
  EXPECT_FALSE(m.rows[0].clock_known);
}

TEST(ReadMeasurements, BadRowsAreNamedByLineAndTheOthersKept) {
  const Measurements m = read(
      "gemm,bf16,M=16;N=512;K=256,0,,,,,\n"
      "gemm,bf16,M=16;N=512;K=256,fast,,,,,\n"
      "gemm,bf16,M=16;N=512;K=256,inf,,,,,\n"
      "gemm,bf16,M=16;N=512;Q=256,7,,,,,\n"
      "gemm,bf16,M=16\n"
      "gemm,bf16,M=16;N=512;K=256,7,,,cold,,\n"
      "gemm,bf16,M=16;N=512;K=256,7,,,,,\n");
  EXPECT_EQ(m.rows.size(), 1U);
  EXPECT_EQ(m.rows.at(0).what.place, "some.csv:8");
  ASSERT_EQ(m.bad.size(), 6U);
  EXPECT_THAT(m.bad[0], StartsWith("some.csv:2: measured_us"));
  EXPECT_THAT(m.bad[1], HasSubstr("'fast'"));
  EXPECT_THAT(m.bad[2], StartsWith("some.csv:4: measured_us"));
  EXPECT_THAT(m.bad[3], StartsWith("some.csv:5: "));
  EXPECT_THAT(m.bad[4], HasSubstr("expected 9 fields, found 3"));
  EXPECT_THAT(m.bad[5], HasSubstr("burst or steady"));
}

TEST(ReadMeasurements, QuotesBlankLinesAndCarriageReturns) {
  Measurements m;
  read_measurements(
      "\xEF\xBB\xBFop,dtype,shape,measured_us,note\r\n\r\n"
      "gemm,bf16,\"M=16,N=512,K=256\",7,\"two\nlines, \"\"quoted\"\"\"\r\ngemm,bf16,oops,7,\r\n",
      "q.csv", {}, m);
  ASSERT_EQ(m.rows.size(), 1U) << (m.bad.empty() ? "" : m.bad[0]);
  EXPECT_EQ(std::get<Gemm>(m.rows[0].what.op).k, 256);
  EXPECT_EQ(m.rows[0].what.place, "q.csv:3");
  ASSERT_EQ(m.bad.size(), 1U);
  EXPECT_THAT(m.bad[0], StartsWith("q.csv:5: "));
}

TEST(ReadMeasurements, RefusesAFileWithoutWhatIsNeeded) {
  Measurements m;
  EXPECT_THROW(read_measurements("", "e.csv", {}, m), BadInput);
  try {
    read_measurements("op,dtype,shape,measured_ms\ngemm,bf16,M=1;N=1;K=1,3\n", "e.csv", {}, m);
    FAIL() << "a file without measured_us was read";
  } catch (const BadInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("expected a column 'measured_us'"));
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'measured_ms'"));
  }
}

TEST(ReadMeasurements, FiltersByAnyColumn) {
  const std::string lines =
      "gemm,bf16,M=1;N=512;K=256,1,,trtllm-1.0,burst,,a\n"
      "gemm,fp16,M=2;N=512;K=256,2,,trtllm-1.3,steady,,b\n"
      "gemm,fp8,M=3;N=512;K=256,3,,vllm-0.2,burst,,c\n";
  EXPECT_EQ(read(lines, {"stack~trtllm"}).rows.size(), 2U);
  EXPECT_EQ(read(lines, {"stack=trtllm"}).rows.size(), 0U);
  EXPECT_EQ(read(lines, {"dtype=bf16,fp8"}).rows.size(), 2U);
  const Measurements both = read(lines, {"stack~trtllm", "clock=burst"});
  ASSERT_EQ(both.rows.size(), 1U);
  EXPECT_EQ(both.rows[0].origin.id, "a");
  EXPECT_EQ(both.filtered, 2);
  EXPECT_EQ(read(lines, {"stack!~trtllm"}).rows.size(), 1U);
  EXPECT_EQ(read(lines, {"M>=2"}).rows.size(), 2U);
  EXPECT_EQ(read(lines, {"M>=2", "N/M<=200"}).rows.size(), 1U);
  EXPECT_EQ(read(lines, {"window<=5"}).rows.size(), 0U);
  EXPECT_THROW(read(lines, {"stak~trtllm"}), BadInput);
}

TEST(RowFilter, RefusesHalfAFilter) {
  EXPECT_THROW(parse_row_filter("stack"), BadInput);
  EXPECT_THROW(parse_row_filter("=x"), BadInput);
  EXPECT_THROW(parse_row_filter("stack~"), BadInput);
  EXPECT_THROW(parse_row_filter("stack!~"), BadInput);
  EXPECT_THROW(parse_row_filter("S>127"), BadInput);
  EXPECT_THROW(parse_row_filter("S>=many"), BadInput);
  EXPECT_THROW(parse_row_filter("Hq/Hkv/D>=2"), BadInput);
  EXPECT_EQ(parse_row_filter("id=a=b").values, std::vector<std::string>{"a=b"});
}

}  // namespace
}  // namespace plumbline::measurement_test
