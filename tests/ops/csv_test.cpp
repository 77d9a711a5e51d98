#include "ops/csv.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <sstream>

#include "arch/error.hpp"

namespace plumbline::csv_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Record = std::vector<std::string>;

std::vector<Record> read_all(CsvReader& reader) {
  std::vector<Record> records;
  while (reader.next()) records.emplace_back(reader.fields().begin(), reader.fields().end());
  return records;
}
std::vector<Record> records_of(std::string_view text) {
  CsvReader reader(text, "t.csv");
  return read_all(reader);
}
std::string error_of(std::string_view text) {
  try {
    (void)records_of(text);
  } catch (const BadInput& e) {
    return e.what();
  }
  return "no error";
}

TEST(Csv, ReadsPlainRecords) {
  EXPECT_THAT(records_of("a,b\n1,2\n"), ElementsAre(Record{"a", "b"}, Record{"1", "2"}));
  EXPECT_THAT(records_of("a,b\n1,2"), ElementsAre(Record{"a", "b"}, Record{"1", "2"}));
  EXPECT_THAT(records_of("a,b\r\n1,2\r\n"), ElementsAre(Record{"a", "b"}, Record{"1", "2"}));
  EXPECT_THAT(records_of("\xEF\xBB\xBFop,x\n"), ElementsAre(Record{"op", "x"}));
  EXPECT_THAT(records_of(",\n,,\n"), ElementsAre(Record{"", ""}, Record{"", "", ""}));
  EXPECT_THAT(records_of("a\n\n\r\nb\n\n"), ElementsAre(Record{"a"}, Record{"b"}));
  EXPECT_THAT(records_of(" a , b \n"), ElementsAre(Record{" a ", " b "}));
  EXPECT_THAT(records_of("a\rb,c\r"), ElementsAre(Record{"a\rb", "c"}));
  EXPECT_TRUE(records_of("").empty());
}

TEST(Csv, ReadsQuotedFields) {
  EXPECT_THAT(records_of("\"a,b\",c\n"), ElementsAre(Record{"a,b", "c"}));
  EXPECT_THAT(records_of("\"a\nb\",\"c\r\nd\"\r\ne,f"), ElementsAre(Record{"a\nb", "c\r\nd"}, Record{"e", "f"}));
  EXPECT_THAT(records_of("\"say \"\"hi\"\"\",\"\"\"\",\"\"\n"), ElementsAre(Record{"say \"hi\"", "\"", ""}));
  EXPECT_THAT(records_of("\"\"\n"), ElementsAre(Record{""}));
}

TEST(Csv, NamesPlaceAndLine) {
  EXPECT_EQ(error_of("a\nb\"c\n"), "t.csv:2: expected quotes around a field that contains a quote");
  EXPECT_EQ(error_of("a\n\"b\nc\n"), "t.csv:2: expected a closing quote for the field that starts here, found the end");
  EXPECT_EQ(error_of("\"b\n\"c\n"), "t.csv:2: expected a comma or the end of the line after a closing quote");
  CsvReader reader("h\n\"x\ny\"\n\nlast\n", "t.csv");
  std::vector<std::size_t> lines;
  while (reader.next()) lines.push_back(reader.line());
  EXPECT_THAT(lines, ElementsAre(1, 2, 5));
}

TEST(Csv, KeepsTheRecordAsItStands) {
  CsvReader reader("\"a\"\"\",\" b\"\r\nc,d\n", "t.csv");
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.record(), "\"a\"\"\",\" b\"");
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.record(), "c,d");
}

TEST(Csv, FindsColumnsByName) {
  CsvReader reader("note, shape ,op,dtype,note\nx,M=1,gemm,bf16,y\n", "t.csv");
  const CsvHeader header(reader);
  EXPECT_EQ(header.size(), 5u);
  EXPECT_EQ(header.require("shape"), 1u);
  EXPECT_EQ(header.require("op"), 2u);
  EXPECT_EQ(header.find("measured_us"), std::nullopt);
  EXPECT_EQ(header.record(), "note, shape ,op,dtype,note");
  EXPECT_THROW((void)header.find("note"), BadInput);
  try {
    (void)header.require("dtipe");
    FAIL();
  } catch (const BadInput& e) {
    EXPECT_STREQ(e.what(), "t.csv: expected a column 'dtipe' (did you mean 'dtype'?)");
  }
  CsvReader empty("\n\n", "t.csv");
  EXPECT_THROW(CsvHeader{empty}, BadInput);
}

TEST(Csv, QuotesOnlyWhereNeeded) {
  const auto text = [](std::string_view field) {
    std::string out;
    append_csv_field(out, field);
    return out;
  };
  EXPECT_EQ(text("M=1;N=2"), "M=1;N=2");
  EXPECT_EQ(text("M=1,N=2"), "\"M=1,N=2\"");
  EXPECT_EQ(text("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(text("a\nb"), "\"a\nb\"");
}

TEST(Csv, CutsAtTheEndOfTheLastWholeRecord) {
  EXPECT_EQ(csv_whole_records("a,b\nc,d"), 4u);
  EXPECT_EQ(csv_whole_records("a,b\nc,d\n"), 8u);
  EXPECT_EQ(csv_whole_records("a,b"), 0u);
  EXPECT_EQ(csv_whole_records("a\n\"b\nc"), 2u);
  EXPECT_EQ(csv_whole_records("\"a\n\"\"\nb\"\nc"), 9u);
  EXPECT_EQ(csv_whole_records(""), 0u);
}

TEST(Csv, EndlessRecordIsRefusedBeforeItFillsMemory) {
  std::istringstream in("a\n\"" + std::string(std::size_t{70} << 20, 'x'));
  CsvReader reader(in, "t.csv");
  ASSERT_TRUE(reader.next());
  try {
    reader.next();
    FAIL();
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), HasSubstr("t.csv:2: a record of more than 64 MiB"));
  }
}

/// Records of fields made of the characters that matter.
std::vector<Record> random_records() {
  const auto field = rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab,\"\n\r; ")));
  auto records = *rc::gen::container<std::vector<Record>>(rc::gen::container<std::vector<std::string>>(2, field));
  for (Record& record : records) record.emplace_back("end");  // so that no record is an empty line
  return records;
}

std::string text_of(const std::vector<Record>& records, const std::string& line_end) {
  std::string text;
  for (const Record& record : records) {
    for (std::size_t i = 0; i < record.size(); ++i) {
      if (i > 0) text += ',';
      append_csv_field(text, record[i]);
    }
    text += line_end;
  }
  return text;
}

RC_GTEST_PROP(Csv, ReadsBackWhatItWrites, ()) {
  const auto records = random_records();
  RC_ASSERT(records_of(text_of(records, "\n")) == records);
  RC_ASSERT(records_of(text_of(records, "\r\n")) == records);
}

RC_GTEST_PROP(Csv, BlocksOfAnySizeGiveTheSameRecordsAndLines, ()) {
  const auto records = random_records();
  std::string text = text_of(records, *rc::gen::element<std::string>("\n", "\r\n"));
  if (*rc::gen::inRange(0, 2) == 1) text.insert(0, "\xEF\xBB\xBF");
  if (!text.empty() && *rc::gen::inRange(0, 2) == 1) text.pop_back();
  std::istringstream in(text);
  CsvBlocks blocks(in, "t.csv", *rc::gen::inRange<std::size_t>(1, 40));
  std::vector<Record> pieced;
  std::vector<std::size_t> lines, expected_lines;
  for (CsvBlock block; blocks.next(block);) {
    CsvReader reader(block.text, "t.csv", block.first_line);
    while (reader.next()) {
      pieced.emplace_back(reader.fields().begin(), reader.fields().end());
      lines.push_back(reader.line());
    }
  }
  CsvReader whole(text, "t.csv");
  while (whole.next()) expected_lines.push_back(whole.line());
  RC_ASSERT(pieced == records_of(text));
  RC_ASSERT(lines == expected_lines);
}

TEST(Csv, StreamsMoreThanABlock) {
  std::string text = "op,dtype,shape\n";
  for (int i = 0; i < 100000; ++i) text += "gemm,bf16,\"M=" + std::to_string(i + 1) + ",N=2,K=3\"\n";
  std::istringstream in(text);
  CsvReader reader(in, "t.csv");
  std::size_t rows = 0;
  while (reader.next()) {
    ASSERT_EQ(reader.fields().size(), 3u);
    ASSERT_EQ(reader.line(), ++rows);
  }
  EXPECT_EQ(rows, 100001u);
  EXPECT_EQ(reader.fields().size(), 0u);
}

}  // namespace
}  // namespace plumbline::csv_test
