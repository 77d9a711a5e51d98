// Steps of transformers that wait for the host, each beside its measured host (data/measurements/h200/pytorch/hosts.*.csv).
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "arch/files.hpp"
#include "model/bands/step_bands.hpp"
#include "validate/record/model_row.hpp"
#include "validate/statistics.hpp"
#include "validate/step/model_report.hpp"

namespace plumbline::host_steps_test {
namespace {

std::vector<ModelComparison> priced(const std::string& side, bool with_host) {
  const std::string file = data_folder() + "/measurements/h200/pytorch/hosts." + side + ".csv";
  ModelRows rows;
  read_model_rows(read_text_file(file), file, {}, rows);
  EXPECT_TRUE(rows.bad.empty());
  for (ModelRow& row : rows.rows) {
    EXPECT_FALSE(row.host.empty());
    if (!with_host) row.host.clear();
  }
  return price_model_rows(rows.rows, {});
}

std::vector<double> errors_of(const std::vector<ModelComparison>& rows) {
  std::vector<double> errors;
  for (const ModelComparison& row : rows) {
    EXPECT_TRUE(row.compared.modelled()) << row.compared.error;
    errors.push_back(100 * std::abs(row.compared.log_ratio()));
  }
  return errors;
}

TEST(HostSteps, AreAsFarOffAsTheBarsAllow) {
  const std::vector<ModelComparison> rows = priced("heldout", true);
  ASSERT_EQ(rows.size(), 40U);
  const std::vector<double> errors = errors_of(rows);
  EXPECT_LE(median(errors), 6);
  EXPECT_LE(quantile(errors, 0.9), 15);
  long inside = 0;
  for (const ModelComparison& row : rows) {
    EXPECT_EQ(row.kind, kMeasuredHostSteps) << row.compared.place;
    const Comparison& c = row.compared;
    inside += c.low <= c.measured && c.measured <= c.high ? 1 : 0;
  }
  EXPECT_GE(inside, 34);
}

/// It is the host's measure that does it: with the stack's own host the same steps are off by what hosts are apart.
TEST(HostSteps, AreFurtherOffWithoutTheirHost) {
  const std::vector<ModelComparison> rows = priced("heldout", false);
  EXPECT_GT(median(errors_of(rows)), 2 * median(errors_of(priced("heldout", true))));
  for (const ModelComparison& row : rows) EXPECT_NE(row.kind, kMeasuredHostSteps);
}

}  // namespace
}  // namespace plumbline::host_steps_test
