// Counts of our kernels as read from their file, and each refusal with its message.
#include "ops/plan/kernel_counts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/json_reader.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::kernel_counts_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::refusal;

std::string file() { return read_text_file(data_folder() + "/kernels/own_sm90.json"); }

std::string refusal_of(const std::string& from, const std::string& to) {
  std::string text = file();
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return refusal([&] { parse_kernel_counts(text, "counts.json"); });
}

TEST(KernelCounts, AreReadFromTheFile) {
  const auto c = load_kernel_counts("own_sm90");
  EXPECT_THAT(c->compiler, HasSubstr("nvcc"));
  EXPECT_GT(c->row[static_cast<std::size_t>(RowwiseKind::rmsnorm)].held, 0);
  EXPECT_GT(c->flat[static_cast<std::size_t>(RowwiseKind::copy)].instructions, 0);
  EXPECT_EQ(c->row[static_cast<std::size_t>(RowwiseKind::copy)].row, 0) << "not a kind that needs whole rows";
  for (const KernelCounts::Chain& chain : c->chain) EXPECT_GT(chain.group, 0);
  EXPECT_GT(c->resources.rope(true).registers, 0);
}

TEST(KernelCounts, AMissingFileIsRefusedByName) {
  EXPECT_THAT(refusal([] { load_kernel_counts("own_sm70"); }), HasSubstr("own_sm70.json"));
}

TEST(KernelCounts, EveryGroupAndNumberMustBeThereAndMeanSomething) {
  EXPECT_THAT(refusal_of("\"rows.softmax\"", "\"rows.sofmax\""),
              AllOf(HasSubstr("counts.json: /counts"), HasSubstr("rows.softmax")));
  EXPECT_THAT(refusal_of("\"waits\": {", "\"wait\": {}, \"waits\": {"), HasSubstr("did you mean 'waits'?"));
  EXPECT_THAT(refusal_of("\"shuffle_clk\"", "\"shufle_clk\""), HasSubstr("shuffle_clk"));
  EXPECT_THAT(refusal_of("\"shuffle_clk\": 25", "\"shuffle_clk\": 25, \"shuffel\": 1"),
              HasSubstr("unknown key 'shuffel'"));
  EXPECT_THAT(refusal_of("\"shuffle_clk\": 25", "\"shuffle_clk\": -25"), HasSubstr("not negative, found -25"));
  EXPECT_THAT(refusal_of("\"shuffle_clk\": 25", "\"shuffle_clk\": \"25\""),
              HasSubstr("/counts/waits/shuffle_clk: expected"));
  EXPECT_THAT(refusal_of("plumbline.kernels.v1", "plumbline.kernels.v2"), HasSubstr("/schema: expected"));
  EXPECT_THAT(refusal_of("\"compiler\"", "\"compilr\""), HasSubstr("did you mean 'compiler'?"));
}

/// Every group says where its counts are from.
TEST(KernelCounts, HaveSources) {
  const JsonDocument document = JsonDocument::parse(file(), "own_sm90.json");
  const JsonValue counts = document.root().at("counts");
  for (const std::string& group : counts.keys()) {
    EXPECT_GT(counts.at(group).at("source").as_string().size(), 10U) << group;
  }
  const std::string where = "SM clocks of dependent steps";
  EXPECT_THAT(refusal([&] {
                std::string text = file();
                const auto at = text.find(where);
                text.erase(at, text.find('"', at) - at);
                parse_kernel_counts(text, "counts.json");
              }),
              HasSubstr("'source'"));
}

}  // namespace
}  // namespace plumbline::kernel_counts_test
