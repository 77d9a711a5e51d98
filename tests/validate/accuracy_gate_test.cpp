// Accuracy must not get worse unnoticed: every held-out set behind the README's table, replayed, against the worst
// median error that data/studies/accuracy.json allows it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "validate/compare/accuracy.hpp"

namespace plumbline::accuracy_gate_test {
namespace {

std::string committed() { return (std::filesystem::path(data_folder()) / "studies" / "accuracy.json").string(); }

/// A ceiling far above what is measured holds nothing. (One test, as most of it is to replay them all.)
TEST(AccuracyGate, NoHeldOutSetIsPredictedWorseThanAllowedAndCeilingsAreClose) {
  const std::vector<AccuracyRow> rows = accuracy_of(read_accuracy_sets(committed()));
  ASSERT_GT(rows.size(), 40u);
  for (const AccuracyRow& row : rows) {
    EXPECT_TRUE(row.holds()) << row.summary.gpu << " " << row.summary.op << ", " << row.label << ": "
                             << 100 * row.summary.median_error << " % of " << 100 * row.ceiling << " % allowed";
    EXPECT_LT(row.ceiling, 1.3 * row.summary.median_error + 0.01) << row.summary.op << ", " << row.label;
  }
}

ClassSummary summary(double bias) {
  ClassSummary c;
  c.gpu = "toy";
  c.op = "gemm";
  c.count = 12;
  c.median_error = 0.021;
  c.p90_error = 0.105;
  c.median_bias = bias;
  c.mape = 0.03;
  c.within_band = 0.917;
  c.roofline_median_error = 0.456;
  return c;
}

/// Bias above 0 is predicted too slow, as the README says.
TEST(AccuracyTable, PrintsEachFigureInPercentAndTheBiasWithItsSign) {
  const std::string table = accuracy_table({{"us", KernelSet::own, summary(0.014), 0.05, ""},
                                            {"TensorRT-LLM", KernelSet::library, summary(-0.023), 0.05, "S>=127"}});
  EXPECT_THAT(table, testing::HasSubstr("| toy | gemm | own, us | all | 12 | 2.1 | 10.5 | +1.4 | 3.0 | 92 | 46 |\n"));
  EXPECT_THAT(table, testing::HasSubstr(
                         "| toy | gemm | library, TensorRT-LLM | S>=127 | 12 | 2.1 | 10.5 | -2.3 | 3.0 | 92 | 46 |\n"));
}

/// The first set of a card has the word; other operators and later sets are in the long table.
TEST(AccuracyTable, ByGpuHasTheFirstSetOfEachOperator) {
  const auto row = [](const char* op, KernelSet kernels, double error) {
    ClassSummary c = summary(0);
    c.op = op;
    c.median_error = error;
    return AccuracyRow{"us", kernels, c, 1, ""};
  };
  const std::string table =
      accuracy_by_gpu({row("gemm", KernelSet::library, 0.03), row("rope", KernelSet::library, 0.5),
                       row("gemm", KernelSet::library, 0.4), row("gemm", KernelSet::own, 0.02),
                       row("attention_decode", KernelSet::library, 0.07)});
  EXPECT_THAT(table, testing::HasSubstr(
                         "| toy | library | 3.0 | - | 7.0 | 24 | 92 |\n| toy | own | 2.0 | - | - | 12 | 92 |\n"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4);
}

/// Who measured is in the label; everything else that leaves rows out is said.
TEST(AccuracyTable, SaysWhatItsFiltersLeave) {
  AccuracySet set;
  EXPECT_EQ(kept_rows(set), "");
  set.filters = {"stack~trtllm", "dtype=bf16", "shape!~kv=fp8", "Hq/Hkv<=16", "S>=127"};
  set.at_least = 10.0 * units::us;
  EXPECT_EQ(kept_rows(set), "dtype=bf16, shape!~kv=fp8, Hq/Hkv<=16, S>=127, >= 10 us");
  set.filters = {"study=heldout"};
  set.at_least = Seconds{};
  set.below = 10.0 * units::us;
  EXPECT_EQ(kept_rows(set), "< 10 us");
}

TEST(AccuracyTable, CsvHasFractions) {
  const std::string csv = accuracy_csv({{"us, \"CUPTI\"", KernelSet::own, summary(-0.023), 0.05, ""}});
  EXPECT_THAT(csv,
              testing::EndsWith("toy,gemm,own,\"us, \"\"CUPTI\"\"\",12,0.021,0.105,-0.023,0.03,0.917,0.456,0.05\n"));
}

class AccuracyList : public testing::Test {
 protected:
  static std::string with(const std::string& set) {
    const std::string path = testing::TempDir() + "accuracy_sets.json";
    std::ofstream(path) << R"({"schema": "plumbline.accuracy.v1", "sets": [)" << set << "]}";
    return path;
  }
  static std::string refusal(const std::string& set) {
    try {
      accuracy_of(read_accuracy_sets(with(set)));
    } catch (const BadInput& error) {
      return error.what();
    }
    return "accepted";
  }
};

const char* const kSilu =
    R"("label": "us", "gpu": "h200_sxm", "kernels": "own", "file": "measurements/h200/rowwise.json")";

TEST_F(AccuracyList, ASetIsHeldAgainstItsCeiling) {
  const std::string set =
      std::string("{") + kSilu + R"(, "where": ["study=heldout"], "median_percent_at_most": {"silu": )";
  EXPECT_FALSE(accuracy_of(read_accuracy_sets(with(set + "0.0001}}"))).front().holds());
  EXPECT_TRUE(accuracy_of(read_accuracy_sets(with(set + "90}}"))).front().holds());
}

TEST_F(AccuracyList, ASetThatLostItsRowsIsRefused) {
  const std::string set = std::string("{") + kSilu;
  EXPECT_THAT(refusal(set + R"(, "where": ["study=train", "dtype=fp8"], "median_percent_at_most": {"gelu": 5}})"),
              testing::HasSubstr("expected"));
  EXPECT_THAT(refusal(set + R"(, "median_percent_at_most": {"spmv": 5}})"), testing::HasSubstr("found none"));
}

TEST_F(AccuracyList, BadListsSayWhere) {
  const std::string set = std::string("{") + kSilu;
  EXPECT_THAT(refusal(set + R"(, "median_percent_at_most": {"gemn": 5}})"), testing::HasSubstr("did you mean 'gemm'"));
  EXPECT_THAT(refusal(set + R"(, "median_percent_at_most": {"gemm": 0}})"), testing::HasSubstr("above 0"));
  EXPECT_THAT(refusal(set + R"(, "median_percent": {"gemm": 1}})"), testing::HasSubstr("median_percent_at_most"));
  EXPECT_THAT(refusal(R"({"label": "x", "gpu": "h200_sxm", "kernels": "mine", "file": "a.csv",
      "median_percent_at_most": {"gemm": 1}})"),
              testing::HasSubstr("own or library"));
}

}  // namespace
}  // namespace plumbline::accuracy_gate_test
