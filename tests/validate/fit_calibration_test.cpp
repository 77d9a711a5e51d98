#include "validate/fit/fit_calibration.hpp"
#include "validate/record/study.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "arch/error.hpp"
#include "validate/cli/fit.hpp"
#include "validate/compare/pricing.hpp"

namespace plumbline::fit_calibration_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(FreeScalar, ReadsNameStartAndBounds) {
  EXPECT_EQ(parse_free_scalar("fixed_s").start, 0);
  EXPECT_EQ(parse_free_scalar("machine.dram_read_fraction").name, "machine.dram_read_fraction");
  EXPECT_DOUBLE_EQ(parse_free_scalar("fixed_s=2e-6").start, 2e-6);
  const FreeScalar all = parse_free_scalar("overlap=8:2:40");
  EXPECT_EQ(all.name, "overlap");
  EXPECT_EQ(all.start, 8);
  EXPECT_EQ(all.low, 2);
  EXPECT_EQ(all.high, 40);
}

TEST(FreeScalar, RefusesWhatIsNotANumberAboveZero) {
  for (const char* text :
       {"", "=3", "machine.", "a=", "a=0", "a=-1", "a=x", "a=1:2", "a=1:0:2", "a=1:2:3:4", "a=inf"}) {
    EXPECT_THROW(parse_free_scalar(text), BadInput) << text;
  }
}

TEST(SizeWeights, EachClassCountsTheSameAndTheSumIsTheCount) {
  const std::vector<Seconds> times{5.0 * units::us, 50.0 * units::us, 60.0 * units::us, 70.0 * units::us};
  const std::vector<double> weights = size_weights(times, true);
  EXPECT_DOUBLE_EQ(weights[0], 2);
  EXPECT_DOUBLE_EQ(weights[1], 2.0 / 3);
  EXPECT_DOUBLE_EQ(weights[1] + weights[2] + weights[3], weights[0]);
  EXPECT_EQ(size_weights(times, false), std::vector<double>(4, 1.0));
}

TEST(DescribeRows, NamesFilesStacksAndClocks) {
  std::vector<Measurement> rows(2);
  rows[0].origin.stack = "trtllm-1.0";
  rows[1].origin.stack = "trtllm-1.0";
  rows[1].what.clock = ClockMode::steady;
  const std::vector<std::string> files{"data/measurements/someone/h200_sxm/gemm.train.csv"};
  EXPECT_EQ(describe_rows(files, rows, std::nullopt), "someone h200_sxm gemm train, trtllm-1.0, burst + steady");
  EXPECT_EQ(describe_rows({"a.csv"}, rows, ClockMode::burst), "a, trtllm-1.0, burst");
}

TEST(ClockOf, AskedThenOwnThenBurst) {
  Measurement row;
  EXPECT_EQ(clock_of(row, std::nullopt), ClockMode::burst);
  row.what.clock = ClockMode::steady;
  EXPECT_EQ(clock_of(row, std::nullopt), ClockMode::steady);
  EXPECT_EQ(clock_of(row, ClockMode::burst), ClockMode::burst);
}

TEST(ParseOverride, SplitsAtTheFirstEquals) {
  EXPECT_EQ(parse_override("memory.bandwidth=6TB/s").value, "6TB/s");
  EXPECT_THROW(parse_override("memory.bandwidth"), BadInput);
  EXPECT_THROW(parse_override("=6"), BadInput);
}

/// Rows "measured" by the engine itself under the installed calibration: a fit from a wrong start must come back to it.
class FitThroughTheEngine : public testing::Test {
 protected:
  FitThroughTheEngine() : gpu_(load_gpu("h200_sxm")), truth_(load_calibration("h200_sxm", "h200_sxm")) {
    const auto machine = make_machine(gpu_, truth_, MachineOptions{"trt-llm", ClockMode::burst, {}});
    for (std::int64_t m : {1, 16, 64, 256, 1024, 2048, 4096, 8192}) {
      for (std::int64_t n : {512, 1536, 4096, 7168, 14336}) {
        Measurement row;
        Gemm shape;
        shape.m = m;
        shape.n = n;
        shape.k = 4096;
        row.what.op = shape;
        row.what.shape = std::to_string(m) + "x" + std::to_string(n);
        row.time = predict(row.what.op, machine).time;
        rows_.push_back(row);
      }
    }
    options_.family = "gemm";
    options_.source = "the engine";
    options_.date = "2026-11-20";
  }

  Gpu gpu_;
  Calibration truth_;
  std::vector<Measurement> rows_;
  CalibrationFitOptions options_;
};

TEST_F(FitThroughTheEngine, ComesBackToTheScalarsThatMadeTheRows) {
  const double fixed_s = truth_.families.at("library.gemm").at("fixed_s").value;
  const double dram = truth_.machine.at("dram_read_fraction").value;
  Calibration start = truth_;
  start.families["library.gemm"]["fixed_s"].value = 1.7 * fixed_s;
  start.machine["dram_read_fraction"].value = 0.8 * dram;
  options_.free = {parse_free_scalar("fixed_s"), parse_free_scalar("machine.dram_read_fraction")};
  const CalibrationFit fit = fit_calibration(gpu_, start, rows_, options_);
  EXPECT_EQ(fit.trained, 40);
  EXPECT_NEAR(fit.result.values.at(0) / fixed_s, 1, 0.02);
  EXPECT_NEAR(fit.result.values.at(1) / dram, 1, 0.02);
  EXPECT_GT(fit.result.median_before, 0.02);
  EXPECT_LT(fit.result.median_after, 0.005);
  const Scalar& written = fit.calibration.families.at("library.gemm").at("fixed_s");
  EXPECT_EQ(written.value, fit.result.values[0]);
  EXPECT_EQ(written.source, "fitted on the engine, n=40, 2026-11-20");
  EXPECT_EQ(parse_calibration(to_json(fit.calibration), "written").machine.at("dram_read_fraction").value,
            fit.result.values[1]);
}

TEST_F(FitThroughTheEngine, ShortRowsAreNotTrainedOn) {
  options_.free = {parse_free_scalar("fixed_s")};
  options_.at_least = 20.0 * units::us;
  const CalibrationFit fit = fit_calibration(gpu_, truth_, rows_, options_);
  EXPECT_GT(fit.trained, 0);
  EXPECT_LT(fit.trained, 40);
  EXPECT_EQ(fit.classes.back().rows, 40);  // but all of them are reported
}

TEST_F(FitThroughTheEngine, AnUnknownScalarIsNamed) {
  options_.free = {parse_free_scalar("fixd_s")};
  try {
    fit_calibration(gpu_, truth_, rows_, options_);
    FAIL() << "an unknown scalar was accepted";
  } catch (const BadInput& error) {
    EXPECT_THAT(error.what(), StartsWith("--free fixd_s"));
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'fixed_s'"));
  }
}

TEST_F(FitThroughTheEngine, AnotherCardsNumbersSayWhoseTheyWere) {
  truth_.gpu = "h100_sxm";
  truth_.inherited = true;
  truth_.bands["library.gemm.100us"] = Band{-1, 1, 99};
  options_.free = {parse_free_scalar("fixed_s")};
  const CalibrationFit fit = fit_calibration(gpu_, truth_, rows_, options_);
  EXPECT_EQ(fit.calibration.gpu, "h200_sxm");
  EXPECT_THAT(fit.calibration.machine.at("dram_read_fraction").source, StartsWith("inherited from h100_sxm: "));
  EXPECT_THAT(fit.calibration.families.at("library.gemm").at("fixed_s").source, StartsWith("fitted on"));
  EXPECT_TRUE(fit.calibration.bands.empty());  // another card's residuals are not this one's
}

}  // namespace
}  // namespace plumbline::fit_calibration_test
