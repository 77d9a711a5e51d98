// Published iterations of training, whole: Megatron-LM's weak scaling on as many as 3072 A100 (data/measurements/megatron_lm).
// Nothing is fitted to them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "arch/files.hpp"
#include "validate/record/model_row.hpp"
#include "validate/step/model_report.hpp"

namespace plumbline::training_rows_test {
namespace {

std::vector<ModelComparison> weak_scaling() {
  const std::string file = data_folder() + "/measurements/megatron_lm/a100_sxm/weak_scaling.csv";
  ModelRows rows;
  read_model_rows(read_text_file(file), file, {}, rows);
  EXPECT_TRUE(rows.bad.empty());
  ModelPricing pricing;
  pricing.gpu = "a100_sxm";
  pricing.rows_stack = true;
  pricing.clock = ClockMode::steady;
  return price_model_rows(rows.rows, pricing);
}

/// docs/accuracy.md says what they are; no digit of them may get worse unseen.
TEST(TrainingRows, MegatronsWeakScalingIsAsFarOffAsThePageSays) {
  const std::vector<ModelComparison> rows = weak_scaling();
  ASSERT_EQ(rows.size(), 10U);
  double sum = 0, worst = 0, bias = 0;
  for (const ModelComparison& row : rows) {
    ASSERT_TRUE(row.compared.error.empty()) << row.compared.shape << ": " << row.compared.error;
    const double error = std::log(row.compared.predicted / row.compared.measured);
    sum += std::abs(error);
    bias += error;
    worst = std::max(worst, std::abs(error));
    EXPECT_LE(row.compared.low, row.compared.measured) << row.compared.shape;
    EXPECT_GE(row.compared.high, row.compared.measured) << row.compared.shape;
  }
  std::printf("weak scaling: mean %.1f %%, bias %+.1f %%, worst %.1f %%\n", 10 * sum, 10 * bias, 100 * worst);
  EXPECT_LE(10 * sum, 4.0);
  EXPECT_LE(100 * worst, 10);
}

/// Iterations of PyTorch that clip gradients or run under autocast, recorded on an H200: one of the training side, four held
/// out (data/measurements/h200/pytorch_training has which launches were read off which).
TEST(TrainingRows, ClippedAndCastIterationsAreMet) {
  for (const char* side : {"train", "heldout"}) {
    const std::string file = data_folder() + "/measurements/h200/pytorch_training/options." + side + ".csv";
    ModelRows rows;
    read_model_rows(read_text_file(file), file, {}, rows);
    EXPECT_TRUE(rows.bad.empty());
    ModelPricing pricing;
    pricing.gpu = "h200_sxm";
    pricing.rows_stack = true;
    pricing.clock = ClockMode::steady;
    for (const ModelComparison& row : price_model_rows(rows.rows, pricing)) {
      ASSERT_TRUE(row.compared.error.empty()) << row.compared.shape << ": " << row.compared.error;
      const double error = 100 * std::log(row.compared.predicted / row.compared.measured);
      std::printf("%s, %s: %+.1f %%\n", side, row.compared.shape.c_str(), error);
      EXPECT_LE(std::abs(error), 12) << row.compared.shape;
    }
  }
}

}  // namespace
}  // namespace plumbline::training_rows_test
