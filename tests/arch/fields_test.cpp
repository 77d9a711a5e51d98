// The list of a descriptor's numbers, and how each is read.
#include "arch/gpu/fields.hpp"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/gpu/layers.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::descriptor::fields_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_support::refusal;

/// The H200's layers merged into one complete document, with what derivations would add.
JsonDocument complete() {
  JsonDocument whole = JsonDocument::parse("{}", "h200");
  for (const Layer& layer : extends_chain(JsonDocument::read_file(gpu_file("h200_sxm")), "h200")) {
    whole = whole.merged_with(layer.document);
  }
  whole.set("l2.bandwidth", "9.8 TB/s");
  return whole;
}

std::string refusal_with(const std::string& path, const std::string& value) {
  JsonDocument document = complete();
  document.set(path, value);
  return refusal([&] { read_descriptor(document.root(), {}); });
}

TEST(Fields, EachNumberIsListedOnce) {
  const auto& paths = number_paths();
  EXPECT_EQ(std::set<std::string>(paths.begin(), paths.end()).size(), paths.size());
  EXPECT_THAT(paths, Contains("sm_count"));
  EXPECT_THAT(paths, Contains("sm.tensor_flop_per_clk.bf16"));
  EXPECT_THAT(paths, Contains("datasheet.tensor_peak.fp8"));
  EXPECT_THAT(paths, Not(Contains("name")));
}

TEST(Fields, PathsAndPointersNameTheSamePlace) {
  EXPECT_EQ(pointer_of("memory.bandwidth"), "/memory/bandwidth");
  EXPECT_EQ(pointer_of("tdp"), "/tdp");
  const JsonDocument document = JsonDocument::parse(R"({"a": {"b": 3, "none": null}, "c": 4})", "x");
  EXPECT_EQ(find_path(document.root(), "a.b")->as_integer(), 3);
  EXPECT_EQ(find_path(document.root(), "c")->as_integer(), 4);
  EXPECT_FALSE(find_path(document.root(), "a.none"));
  EXPECT_FALSE(find_path(document.root(), "a.x.y"));
  EXPECT_FALSE(find_path(document.root(), "c.b"));  // a number has no members
}

TEST(Fields, ReadsACompleteDocument) {
  const JsonDocument document = complete();
  const GpuDescriptor d = read_descriptor(document.root(), {});
  EXPECT_EQ(d.gpu.sm_count, 132);
  EXPECT_EQ(d.gpu.memory.bandwidth, 4.8 * units::TB_per_s);
  EXPECT_EQ(d.gpu.memory.capacity, 141.0 * units::GiB);
  EXPECT_EQ(d.nvlink_generation, 4);
  EXPECT_EQ(d.gpu.sm.warp_size, 32);
  EXPECT_EQ(d.gpu.compute_capability, "9.0");
}

TEST(Fields, CalibrationIsTheNameWhereNoneIsNamed) {
  JsonDocument document = complete();
  document.set("calibration", "null");
  EXPECT_EQ(read_descriptor(document.root(), {}).gpu.calibration, "h200_sxm");
  document.set("calibration", "h100_sxm");
  EXPECT_EQ(read_descriptor(document.root(), {}).gpu.calibration, "h100_sxm");
}

TEST(Fields, MissingNumbersAreNamedWhereOneIsNeeded) {
  EXPECT_THAT(refusal_with("sm_count", "null"), HasSubstr("missing key '/sm_count'"));
  EXPECT_THAT(refusal_with("memory.latency", "null"), HasSubstr("missing key '/memory/latency'"));
  EXPECT_THAT(refusal_with("idle_power", "null"), HasSubstr("missing key '/idle_power'"));
  EXPECT_EQ(refusal_with("base_clock", "null"), "(accepted)");
  EXPECT_EQ(refusal_with("sm.tensor_flop_per_clk.fp64", "null"), "(accepted)");
}

TEST(Fields, RangesEndWhereTheyShould) {
  EXPECT_EQ(refusal_with("sm_count", "1000000"), "(accepted)");
  EXPECT_THAT(refusal_with("sm_count", "1000001"), HasSubstr("/sm_count: expected a count of at most a million"));
  EXPECT_THAT(refusal_with("sm_count", "0"), HasSubstr("expected a number above zero, found 0"));
  EXPECT_THAT(refusal_with("sm_count", "-1"), HasSubstr("expected a number that is not negative"));
  EXPECT_EQ(refusal_with("links.nvlink_count", "0"), "(accepted)");
  EXPECT_EQ(refusal_with("l2.size", "909000 TiB"), "(accepted)");
  EXPECT_THAT(refusal_with("l2.size", "910000 TiB"), HasSubstr("expected at most 1e18 bytes"));
}

TEST(Fields, SizesAreBinaryAndRatesAreDecimal) {
  EXPECT_THAT(refusal_with("memory.capacity", "141 GB"),
              AllOf(HasSubstr("/memory/capacity: GB/GiB mix-up"), HasSubstr("expected \"141 GiB\"")));
  EXPECT_THAT(refusal_with("sm.smem", "228 kB"), HasSubstr("expected \"228 KiB\""));
  EXPECT_THAT(refusal_with("memory.bandwidth", "4 TiB/s"),
              AllOf(HasSubstr("expected a decimal rate"), HasSubstr("write \"4398.046511104 GB/s\"")));
}

TEST(Fields, ARefusedOverrideIsNamedAsTheFlagThatSetIt) {
  JsonDocument document = complete();
  document.set("tdp", "0 W");
  const std::vector<Override> overrides{{"tdp", "700 W"}, {"tdp", "0 W"}};
  EXPECT_THAT(refusal([&] { read_descriptor(document.root(), overrides); }),
              testing::StartsWith("set tdp=0 W: expected a number above zero"));
}

TEST(Fields, UnknownKeysAreRefusedWithTheNearestOfTheirLevel) {
  const auto unknown = [](const std::string& text) {
    const JsonDocument document = JsonDocument::parse(text, "x.json");
    return refusal([&] { refuse_unknown_keys(document.root()); });
  };
  EXPECT_EQ(unknown(R"({"name": "x", "memory": {"bandwidth": 1}, "sources": {"anything": 1}, "aliases": ["y"]})"),
            "(accepted)");
  EXPECT_THAT(unknown(R"({"memry": {}})"), HasSubstr("did you mean 'memory'?"));
  EXPECT_THAT(unknown(R"({"memory": {"bandwith": 1}})"), HasSubstr("did you mean 'bandwidth'?"));
  EXPECT_THAT(unknown(R"({"memory": {"sources": {}}})"), HasSubstr("sources"));  // free at the top alone
  EXPECT_THAT(unknown("[]"), HasSubstr("expected an object"));
}

TEST(Fields, UnknownOverridesAreRefusedWithTheNearestPath) {
  EXPECT_EQ(refusal([] { refuse_unknown_override({"tdp", "1 W"}); }), "(accepted)");
  EXPECT_THAT(refusal([] {
                refuse_unknown_override({"memory.bandwith", "1 TB/s"});
              }),
              HasSubstr("did you mean 'memory.bandwidth'?"));
  EXPECT_THAT(refusal([] {
                refuse_unknown_override({"bandwith", "1 TB/s"});
              }),
              HasSubstr("(did you mean 'l2.bandwidth' or 'memory.bandwidth'?)"));
  EXPECT_THAT(refusal([] {
                refuse_unknown_override({"name", "x"});
              }),
              HasSubstr("set name=x: expected the path of a descriptor number, found 'name'"));
}

}  // namespace
}  // namespace plumbline::descriptor::fields_test
