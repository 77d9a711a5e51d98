// Our GEMM and decode attention cut in ways that the planner does and does not choose, measured on an H200
// (2026-11-20, shapes that no held-out list has): tests/model/sweeps/plans_h200.csv, and plans_ragged_h200.csv of GEMM
// shapes drawn log-uniformly, K and N multiples of 8 or 16; exactly as measured.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "arch/gpu/gpu.hpp"
#include "model/engine/rates.hpp"
#include "model/predict.hpp"
#include "ops/plan/text.hpp"
#include "ops/table/text.hpp"
#include "tests/support/places.hpp"

namespace plumbline::own_sweep_test {
namespace {

struct SweepRow {
  std::string op, dtype, shape, cache, plan;
  double us = 0, predicted = 0;
  std::string key() const { return op + dtype + shape + cache; }
  double error() const { return std::abs(std::log(predicted / us)); }
};

std::vector<SweepRow> priced_sweep(const std::string& file) {
  std::ifstream in(testing_support::tests_folder() + "/model/sweeps/" + file);
  EXPECT_TRUE(in);
  const auto machine = make_machine(load_gpu("h200_sxm"), MachineOptions{"own"});
  std::vector<SweepRow> rows;
  std::string line;
  std::getline(in, line);  // header
  while (std::getline(in, line)) {
    std::stringstream cells(line);
    SweepRow r;
    for (std::string* cell : {&r.op, &r.dtype, &r.shape, &r.cache, &r.plan}) std::getline(cells, *cell, ',');
    std::string us;
    std::getline(cells, us, ',');
    r.us = std::stod(us);
    const auto gemm = parse_gemm_plan(r.plan);
    const auto attention = parse_attention_plan(r.plan);
    const OpPrediction p = predict(parse_op(r.op, r.dtype, r.shape), machine,
                                   {.warm = r.cache == "warm",
                                    .gemm_plan = gemm ? &*gemm : nullptr,
                                    .attention_plan = attention ? &*attention : nullptr});
    EXPECT_TRUE(gemm ? p.gemm_plan == *gemm : attention && p.attention_plan.splits == attention->splits) << r.plan;
    r.predicted = p.time.in(units::us);
    rows.push_back(r);
  }
  return rows;
}

double median_error(const std::vector<SweepRow>& rows) {
  std::vector<double> errors;
  for (const SweepRow& r : rows) errors.push_back(r.error());
  std::nth_element(errors.begin(), errors.begin() + static_cast<long>(errors.size() / 2), errors.end());
  return errors[errors.size() / 2];
}

TEST(OwnSweep, AsRecordedPlansArePriced) {
  std::vector<SweepRow> wgmma, mma, decode;
  for (const SweepRow& r : priced_sweep("plans_h200.csv")) {
    if (r.op != "gemm") decode.push_back(r);
    else if (r.plan.find("wgmma") != std::string::npos) wgmma.push_back(r);
    else mma.push_back(r);
  }
  ASSERT_GT(wgmma.size(), 400U);
  ASSERT_GT(decode.size(), 100U);
  EXPECT_LT(median_error(wgmma), 0.04);
  EXPECT_LT(median_error(mma), 0.14);
  EXPECT_LT(median_error(decode), 0.045);
}

TEST(OwnSweep, RaggedShapesArePriced) {
  const std::vector<SweepRow> rows = priced_sweep("plans_ragged_h200.csv");
  ASSERT_GT(rows.size(), 200U);
  EXPECT_LT(median_error(rows), 0.075);
}

/// What the cheapest plan in the model loses against the best one measured.
TEST(OwnSweep, TheCheapestPlanIsNearTheBest) {
  std::map<std::string, std::vector<SweepRow>> shapes;
  for (const char* file : {"plans_h200.csv", "plans_ragged_h200.csv"}) {
    for (const SweepRow& r : priced_sweep(file)) shapes[r.key()].push_back(r);
  }
  double sum = 0;
  int count = 0;
  for (const auto& [key, rows] : shapes) {
    if (rows.size() < 2) continue;
    const auto picked = std::min_element(
        rows.begin(), rows.end(), [](const SweepRow& a, const SweepRow& b) { return a.predicted < b.predicted; });
    const auto best =
        std::min_element(rows.begin(), rows.end(), [](const SweepRow& a, const SweepRow& b) { return a.us < b.us; });
    sum += std::log(picked->us / best->us);
    ++count;
  }
  ASSERT_GT(count, 70);
  EXPECT_LT(std::exp(sum / count) - 1, 0.03);
}

}  // namespace
}  // namespace plumbline::own_sweep_test
