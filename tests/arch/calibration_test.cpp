#include "arch/calibration/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "arch/error.hpp"
#include "arch/files.hpp"

namespace plumbline::calibration_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kText = R"({"schema": 1, "gpu": "h200_sxm",
  "machine": {"dram_read_fraction": {"value": 0.93, "source": "bench"}, "gap_graph_s": {"value": 2.4e-6, "source": "bench"}},
  "families": {"library": {"gemm": {"overlap": {"value": 6.5, "source": "fit of 80 rows"}}},
               "own": {"gemm": {"overlap": {"value": 4, "source": "fit"}}}},
  "bands": {"library.gemm.large": {"low": -0.1, "high": 0.12, "rows": 120}}})";

std::string refusal_of(const std::string& body) {
  try {
    parse_calibration(R"({"schema": 1, "gpu": "x", )" + body + "}", "c.json");
  } catch (const BadInput& e) {
    return e.what();
  }
  return "(accepted)";
}

TEST(Calibration, ReadsScalarsFamiliesAndBands) {
  const Calibration c = parse_calibration(kText, "c.json");
  EXPECT_EQ(c.gpu, "h200_sxm");
  EXPECT_FALSE(c.inherited);
  EXPECT_DOUBLE_EQ(c.machine.at("dram_read_fraction").value, 0.93);
  EXPECT_EQ(c.machine.at("gap_graph_s").source, "bench");
  EXPECT_DOUBLE_EQ(c.families.at("library.gemm").at("overlap").value, 6.5);
  EXPECT_DOUBLE_EQ(c.families.at("own.gemm").at("overlap").value, 4);
  EXPECT_DOUBLE_EQ(c.bands.at("library.gemm.large").high, 0.12);
  EXPECT_EQ(c.bands.at("library.gemm.large").rows, 120);
}

void expect_same(const Calibration& a, const Calibration& b) {
  EXPECT_EQ(a.gpu, b.gpu);
  ASSERT_EQ(a.machine.size(), b.machine.size());
  for (const auto& [name, scalar] : a.machine) {
    EXPECT_EQ(scalar.value, b.machine.at(name).value) << name;
    EXPECT_EQ(scalar.source, b.machine.at(name).source) << name;
  }
  ASSERT_EQ(a.families.size(), b.families.size());
  for (const auto& [family, scalars] : a.families) {
    for (const auto& [name, scalar] : scalars)
      EXPECT_EQ(scalar.value, b.families.at(family).at(name).value) << family << name;
  }
  ASSERT_EQ(a.bands.size(), b.bands.size());
  for (const auto& [name, band] : a.bands) {
    EXPECT_EQ(band.low, b.bands.at(name).low);
    EXPECT_EQ(band.high, b.bands.at(name).high);
    EXPECT_EQ(band.rows, b.bands.at(name).rows);
  }
}

TEST(Calibration, WritesWhatItReads) {
  const Calibration c = parse_calibration(kText, "c.json");
  expect_same(parse_calibration(to_json(c), "again"), c);
}

RC_GTEST_PROP(Calibration, AnyValueSurvivesARoundTrip, (double value, double low, bool other)) {
  RC_PRE(std::isfinite(value) && std::isfinite(low));
  Calibration c;
  c.gpu = "x";
  c.machine["dram_loaded_latency_ratio"] = {std::abs(value), "a \"quoted\" source, µ"};
  c.families[other ? "own.gemm" : "library.rowwise"]["overlap"] = {value, "s"};
  c.bands["ideal.f.10us"] = {std::min(low, value), std::max(low, value), 7};
  expect_same(parse_calibration(to_json(c), "again"), c);
}

TEST(Calibration, RefusesFractionsOverOne) {
  EXPECT_THAT(refusal_of(R"("machine": {"dram_read_fraction": {"value": 1.02, "source": "x"}})"),
              AllOf(StartsWith("c.json: /machine/dram_read_fraction/value: expected a fraction"), HasSubstr("1.02")));
  EXPECT_THAT(refusal_of(R"("probed": {"sfu_fraction": {"value": 93, "source": "x"}})"), HasSubstr("at most 1"));
  EXPECT_THAT(refusal_of(R"("machine": {"l2_usable_fraction": {"value": 0, "source": "x"}})"), HasSubstr("above 0"));
  EXPECT_THAT(refusal_of(R"("families": {"own": {"gemm": {"efficiency_fraction": {"value": 2, "source": "x"}}}})"),
              HasSubstr("expected a fraction"));
  EXPECT_EQ(refusal_of(R"("machine": {"l2_usable_fraction": {"value": 1, "source": "x"}})"), "(accepted)");
}

TEST(Calibration, RefusesWhatItDoesNotKnow) {
  // what only the probes found has a section of its own
  EXPECT_THAT(refusal_of(R"("machine": {"sfu_fraction": {"value": 1, "source": "x"}})"),
              HasSubstr("expected a scalar that is read"));
  EXPECT_THAT(refusal_of(R"("probed": {"pcie_fraction": {"value": 1, "source": "x"}})"),
              HasSubstr("expected a scalar that is read"));
  EXPECT_THAT(refusal_of(R"("machines": {})"), HasSubstr("did you mean 'machine'?"));
  EXPECT_THAT(refusal_of(R"("probed": {"sfu_fraction": 1})"), HasSubstr("expected an object"));
  EXPECT_THAT(refusal_of(R"("probed": {"sfu_fraction": {"value": 1}})"), HasSubstr("missing key 'source'"));
  EXPECT_THAT(refusal_of(R"("probed": {"sfu_fraction": {"value": 1, "source": ""}})"),
              HasSubstr("where the number comes from"));
  EXPECT_THAT(refusal_of(R"("machine": {"gap_graph_s": {"value": -1, "source": "x"}})"), HasSubstr("not negative"));
  EXPECT_THAT(refusal_of(R"("families": {"libary": {}})"), HasSubstr("did you mean 'library'?"));
  EXPECT_THAT(refusal_of(R"("bands": {"gemm.large": {"low": 0, "high": 0, "rows": 1}})"),
              HasSubstr("library.gemm.large"));
  EXPECT_THAT(refusal_of(R"("bands": {"own.gemm.big": {"low": 0, "high": 0, "rows": 1}})"), HasSubstr("a size class"));
  EXPECT_THAT(refusal_of(R"("bands": {"own.gemm.large": {"low": 1, "high": 0, "rows": 1}})"), HasSubstr("low <= high"));
  EXPECT_THAT(refusal_of(R"("bands": {"own.gemm.large": {"low": 0, "high": 0, "rows": -1}})"),
              HasSubstr("count of rows"));
  EXPECT_THROW(parse_calibration(R"({"schema": 2, "gpu": "x"})", "c"), BadInput);
  EXPECT_THROW(parse_calibration("[]", "c"), BadInput);
}

/// A data folder of its own, so that what is on file does not matter.
class LoadCalibration : public testing::Test {
 protected:
  LoadCalibration() {
    std::string pattern = (std::filesystem::temp_directory_path() / "plumbline-data-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    if (const char* old = std::getenv("PLUMBLINE_DATA")) old_ = old;
    setenv("PLUMBLINE_DATA", folder_.c_str(), 1);
    std::filesystem::create_directory(folder_ + "/calibration");
    write_text_file(folder_ + "/calibration/h200_sxm.json", kText);
  }
  ~LoadCalibration() override {
    if (old_.empty()) unsetenv("PLUMBLINE_DATA");
    else setenv("PLUMBLINE_DATA", old_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  std::string folder_, old_;
};

TEST_F(LoadCalibration, TakesTheGpusOwnFirst) {
  const Calibration c = load_calibration("h200_sxm", "h100_sxm");
  EXPECT_EQ(c.gpu, "h200_sxm");
  EXPECT_FALSE(c.inherited);
}

TEST_F(LoadCalibration, FallsBackAndSaysSo) {
  const Calibration c = load_calibration("b200_sxm", "h200_sxm");
  EXPECT_EQ(c.gpu, "h200_sxm");
  EXPECT_TRUE(c.inherited);
}

TEST_F(LoadCalibration, RefusesWhenThereIsNone) {
  EXPECT_THROW(load_calibration("b200_sxm", "h100_sxm"), BadInput);
  EXPECT_THROW(load_calibration("", ""), BadInput);
  EXPECT_THROW(load_calibration("../calibration/h200_sxm", "../calibration/h200_sxm"), BadInput);
}

}  // namespace
}  // namespace plumbline::calibration_test
