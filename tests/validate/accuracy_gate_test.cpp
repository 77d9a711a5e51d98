// Accuracy must not get worse unnoticed: the committed recording replayed, held-out cases of our kernels, mean of
// |predicted / measured - 1| by operator, each with a little room over what it was on 2026-11-20 (README). A better
// model lowers a ceiling; none is ever raised to let a worse one through.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "arch/files.hpp"
#include "validate/recorded.hpp"
#include "validate/report_cases.hpp"

namespace plumbline {
namespace {

const std::map<std::string, double> kCeilings = {{"all", 0.075},
                                                 {"gemm", 0.085},
                                                 {"attention_prefill", 0.045},
                                                 {"attention_decode", 0.08},
                                                 {"add", 0.045},
                                                 {"copy", 0.09},
                                                 {"swiglu", 0.035},
                                                 {"rope", 0.05},
                                                 {"gelu", 0.025},
                                                 {"rmsnorm", 0.075},
                                                 {"layernorm", 0.085},
                                                 {"softmax", 0.125},
                                                 {"silu", 0.02},
                                                 {"sum_rows", 0.1},
                                                 {"transpose_copy", 0.07},
                                                 {"embedding", 0.07}};

TEST(AccuracyGate, HeldOutCasesOfTheH200AreNotPredictedWorseThanBefore) {
  const std::filesystem::path file = std::filesystem::path(data_folder()) / "measurements" / "h200" / "full.json";
  const auto report = compare_recording(read_recording(file.string()), {}, {});
  std::map<std::string, double> sum;
  std::map<std::string, int> count;
  for (const CaseRow& row : report->rows) {
    if (row.measured.what.study != "heldout") continue;
    ASSERT_EQ(row.compared.error, "");
    const double off = std::abs(row.compared.predicted / row.compared.measured - 1.0);
    for (const std::string& group : {std::string("all"), row.compared.op}) {
      sum[group] += off;
      ++count[group];
    }
  }
  EXPECT_EQ(count["all"], 524);
  for (const auto& [group, ceiling] : kCeilings) {
    ASSERT_GT(count[group], 0) << group;
    EXPECT_LT(sum[group] / count[group], ceiling) << group;
  }
}

}  // namespace
}  // namespace plumbline
