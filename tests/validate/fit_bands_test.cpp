#include "validate/fit/fit_bands.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "ops/table/text.hpp"

namespace plumbline::fit_bands_test {
namespace {

using ::testing::HasSubstr;

TEST(ShapeGroup, LeavesOutWhatVariesFromCallToCall) {
  const auto group = [](const char* op, const char* shape) { return shape_group(parse_op(op, "bf16", shape)); };
  EXPECT_EQ(group("gemm", "M=7;N=64;K=128"), group("gemm", "M=4096;N=64;K=128"));
  EXPECT_NE(group("gemm", "M=7;N=64;K=128"), group("gemm", "M=7;N=64;K=256"));
  EXPECT_EQ(group("attention_decode", "B=1;Hq=32;Hkv=8;D=128;S=77"),
            group("attention_decode", "B=9;Hq=32;Hkv=8;D=128;S=4096"));
  EXPECT_NE(group("attention_decode", "B=1;Hq=32;Hkv=8;D=128;S=77"),
            group("attention_decode", "B=1;Hq=16;Hkv=8;D=128;S=77"));
}

TEST(BinomialRange, OfTen) {
  // P(X <= 5) = 0.0016, P(X <= 6) = 0.0128 of 10 at 0.9; all ten at once happen every third time
  EXPECT_EQ(binomial_range(10, 0.9, 0.99).least, 6);
  EXPECT_EQ(binomial_range(10, 0.9, 0.99).most, 10);
  const CountRange many = binomial_range(1000, 0.9, 0.99);  // normal: 900 +- 2.576 x 9.49
  EXPECT_NEAR(static_cast<double>(many.least), 875.6, 2);
  EXPECT_NEAR(static_cast<double>(many.most), 924.4, 2);
}

TEST(BandSources, AreChecked) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      parse_band_sources(text, "bands.json");
    } catch (const BadInput& error) {
      return error.what();
    }
    return "(accepted)";
  };
  EXPECT_THAT(refusal(R"({"sources": [{"gpu": "h200", "kernels": "own"}]})"), HasSubstr("either"));
  EXPECT_THAT(refusal(R"({"sources": [{"gpu": "h200", "kernels": "ideal", "rows": "x"}]})"),
              HasSubstr("own or library"));
  EXPECT_THAT(refusal(R"({"sources": [{"gpu": "h2000", "kernels": "own", "rows": "x"}]})"), HasSubstr("h2000"));
  EXPECT_THAT(refusal(R"({"sourcs": []})"), HasSubstr("sources"));
}

/// Rows that the engine itself made: residuals vanish and stay away when scalars are fitted again without a fold; a
/// card of the same capability that was 20 % slower everywhere has that as its transfer band, times sqrt(2) for one draw.
TEST(FitBands, ThroughTheEngine) {
  const Gpu h100 = load_gpu("h100_sxm"), h200 = load_gpu("h200_sxm");
  Calibration truth = load_calibration("h100_sxm", "");
  for (auto& [name, scalar] : truth.machine) scalar.source = "probe";
  for (auto& [family, scalars] : truth.families) {
    for (auto& [name, scalar] : scalars) scalar.source = "probe";
  }
  for (const char* name : {"fixed_s", "step_s"}) truth.families.at("library.gemm").at(name).source = "fitted on this";
  Calibration taken_over = truth;
  taken_over.inherited = true;
  const auto here = make_machine(h100, truth, MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  const auto there = make_machine(h200, taken_over, MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  std::vector<BandRow> rows;
  for (const std::int64_t m : {1, 16, 64, 512, 4096}) {
    for (const std::int64_t n : {512, 1024, 4096, 8192}) {
      for (const std::int64_t k : {1024, 4096}) {
        BandRow row;
        row.measured.what.op = Gemm{m, n, k, 1, Precision{}, false};
        row.measured.what.clock = ClockMode::burst;
        row.gpu = "h100_sxm";
        row.measured.time = predict(row.measured.what.op, here).time;
        rows.push_back(row);
        row.gpu = "h200_sxm";
        row.measured.time = 1.2 * predict(row.measured.what.op, there).time;
        rows.push_back(row);
      }
    }
  }
  const BandFit fit = fit_bands(h100, truth, {truth}, rows);
  EXPECT_EQ(fit.refitted, 2U);
  EXPECT_EQ(fit.residuals.size(), 80U);
  EXPECT_NEAR(fit.calibration.bands.at("library.all.any").low, 0, 0.01);
  EXPECT_NEAR(fit.calibration.bands.at("library.all.any").high, 0, 0.01);
  EXPECT_NEAR(fit.calibration.transfer_bands.at("near.library.all.any").low, -std::sqrt(2) * std::log(1.2), 2e-4);
  EXPECT_NEAR(fit.calibration.transfer_bands.at("near.library.all.any").high, std::sqrt(2) * std::log(1.2), 2e-4);
  EXPECT_EQ(fit.calibration.families.at("library.gemm").at("fixed_s").value,
            truth.families.at("library.gemm").at("fixed_s").value);
  const Calibration again = parse_calibration(to_json(fit.calibration), "written");
  EXPECT_EQ(again.transfer_bands.size(), fit.calibration.transfer_bands.size());
  EXPECT_EQ(again.band_correlation.size(), fit.calibration.band_correlation.size());
  EXPECT_THROW(fit_bands(load_gpu("a100_sxm"), load_calibration("a100_sxm", ""), {truth}, rows), BadInput);
}

/// All rows are of one N and K, so that one fold would take them all: their lengths are dealt then.
TEST(FitBands, RowsOfOneGroupOfShapesAreDealtByShape) {
  const Gpu h100 = load_gpu("h100_sxm");
  Calibration truth = load_calibration("h100_sxm", "");
  for (auto& [family, scalars] : truth.families) {
    for (auto& [name, scalar] : scalars) scalar.source = "probe";
  }
  for (auto& [name, scalar] : truth.machine) scalar.source = "probe";
  truth.families.at("library.gemm").at("fixed_s").source = "fitted on this";
  const auto here = make_machine(h100, truth, MachineOptions{"trt-llm", ClockMode::burst, std::nullopt});
  std::vector<BandRow> rows;
  const auto add = [&](std::int64_t m) {
    BandRow row;
    row.measured.what.op = Gemm{m, 4096, 4096, 1, Precision{}, false};
    row.measured.what.clock = ClockMode::burst;
    row.gpu = "h100_sxm";
    row.measured.time = predict(row.measured.what.op, here).time;
    rows.push_back(row);
  };
  for (std::int64_t m = 128; m <= 2048; m += 128) add(m);
  EXPECT_EQ(fit_bands(h100, truth, {truth}, rows).refitted, 1U);
  rows.clear();
  for (int i = 0; i < 16; ++i) add(128);  // one shape: nothing to be held against
  EXPECT_EQ(fit_bands(h100, truth, {truth}, rows).refitted, 0U);
}

}  // namespace
}  // namespace plumbline::fit_bands_test
