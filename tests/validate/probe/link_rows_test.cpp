// The CSV of measured links: columns, sizes, and what a time is divided by.
#include "validate/probe/link_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace plumbline::link_rows_test {
namespace {

std::ptrdiff_t commas(const std::string& line) { return std::count(line.begin(), line.end(), ','); }

TEST(LinkRows, ALineHasTheHeadersColumns) {
  LinkRow row;
  row.op = "all_reduce";
  row.dtype = "bf16";
  row.shape = "bytes=8192;gpus=2";
  row.kernel = "one_shot";
  row.plan = "one_shot ctas=4";
  row.gpus = 2;
  row.counted = 8192.0 * units::B;
  row.seconds = Spread{4e-6, 3.9e-6, 4.2e-6, 15};
  EXPECT_EQ(
      link_line(row),
      "all_reduce,bf16,bytes=8192;gpus=2,4.0000,3.9000,4.2000,warm,burst,own,one_shot,one_shot ctas=4,2,2.05,,ok\n");
  EXPECT_EQ(commas(link_line(row)), commas(link_header()));
}

TEST(LinkRows, AFaultHasNoTimesAndStaysOneLine) {
  LinkRow row;
  row.op = "h2d";
  row.status = "cudaMemcpy, line 3:\n\"refused\"";
  const std::string line = link_line(row);
  EXPECT_EQ(commas(line), commas(link_header()));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(line, testing::HasSubstr("h2d,,,,,,warm"));
}

TEST(LinkRows, BusBytesAreNcclTests) {
  EXPECT_EQ(bus_bytes({CollectiveKind::all_reduce, 1000, 4, DType::bf16}).in(units::B), 1500);
  EXPECT_EQ(bus_bytes({CollectiveKind::all_gather, 1000, 4, DType::bf16}).in(units::B), 750);
}

TEST(LinkRows, SizesArePowersOfTwoAndDrawnOnesBetween) {
  EXPECT_THAT(link_sizes(4096, 0, 1, 4), testing::ElementsAre(512, 1024, 2048, 4096));
  const std::vector<std::int64_t> drawn = link_sizes(1 << 20, 10, 7, 6);
  EXPECT_GT(drawn.size(), 12U);
  EXPECT_TRUE(std::is_sorted(drawn.begin(), drawn.end()));
  for (const std::int64_t size : drawn) EXPECT_EQ(size % 6, 0);
  EXPECT_EQ(drawn, link_sizes(1 << 20, 10, 7, 6));
}

TEST(LinkRows, AGraphLastsTwoMillisecondsAndHoldsTwoToTwentyCalls) {
  EXPECT_EQ(calls_in_graph(4.0 * units::us), 20);
  EXPECT_EQ(calls_in_graph(250.0 * units::us), 8);
  EXPECT_EQ(calls_in_graph(5.0 * units::ms), 2);
}

TEST(LinkRows, TheFloorIsTakenOffBeforeItIsSharedOut) {
  EXPECT_THAT(per_call({12.0, 22.0}, 2.0, 5), testing::ElementsAre(2.0, 4.0));
}

}  // namespace
}  // namespace plumbline::link_rows_test
