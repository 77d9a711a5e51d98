// The planner against sweeps of our own kernels on an H200 (2026-11-20): how much slower is the plan that it would pick
// than the best one measured. tests/model/sweeps/*.csv, exactly as measured, of the variants in the menu.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "arch/gpu/gpu.hpp"
#include "model/engine/rates.hpp"
#include "model/predict.hpp"
#include "model/stacks/common/plan_attention.hpp"
#include "tests/support/places.hpp"

#include "tests/support/planners.hpp"

namespace plumbline::own_regret_test {
namespace {

using namespace testing_support;

using Cells = std::vector<std::string>;

std::vector<Cells> rows_of(const std::string& file) {
  std::ifstream in(testing_support::tests_folder() + "/model/sweeps/" + file);
  EXPECT_TRUE(in) << file;
  std::vector<Cells> rows;
  std::string line;
  std::getline(in, line);  // header
  while (std::getline(in, line)) {
    std::stringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

std::int64_t whole(const std::string& cell) { return std::stoll(cell); }

Machine h200() { return make_machine(load_gpu("h200_sxm"), MachineOptions{"own"}); }

/// Best measured time of a shape, and that of the plan which is cheapest in the model.
struct Shape {
  double best = std::numeric_limits<double>::infinity(), picked = 0, predicted = best;
  void add(double measured, double model) {
    best = std::min(best, measured);
    if (model < predicted) {
      predicted = model;
      picked = measured;
    }
  }
};

struct Regret {
  double mean = 0, error = 0;  ///< geometric mean - 1; mean |ln(predicted / measured)| of the picked plans
};
Regret regret(const std::map<std::string, Shape>& shapes) {
  Regret r;
  for (const auto& [name, s] : shapes) {
    r.mean += std::log(s.picked / s.best);
    r.error += std::abs(std::log(s.predicted / s.picked));
  }
  const auto n = static_cast<double>(shapes.size());
  return {std::exp(r.mean / n) - 1, r.error / n};
}

/// M,N,K,dtype,rows,cols,stages,cluster,ctas_per_sm,swapped,splits,us; a graph's gap in each time.
TEST(OwnRegret, Gemm) {
  const auto m = h200();
  std::map<std::string, Shape> shapes;
  for (const Cells& c : rows_of("gemm_h200.csv")) {
    const bool fp8 = c[3] == "fp8", swapped = c[9] == "1";
    GemmPlan plan;
    plan.tile_m = whole(c[swapped ? 5 : 4]);
    plan.tile_n = whole(c[swapped ? 4 : 5]);
    plan.tile_k = fp8 ? 128 : 64;
    plan.stages = whole(c[6]);
    (swapped ? plan.cluster_n : plan.cluster_m) = whole(c[7]);
    plan.swapped = swapped;
    plan.splits = whole(c[10]);
    if (plan.splits == 0) continue;  // never picked (own/plan_gemm.cpp)
    GemmCache cache;
    const Gemm shape{whole(c[0]), whole(c[1]), whole(c[2]), 1, *parse_precision(c[3]), false};
    const auto choice = price_own_plan(task_of(shape, m), plan, m.rates(), families_of(m, "own"), cache);
    if (choice)
      shapes[c[0] + "," + c[1] + "," + c[2] + c[3]].add(std::stod(c[11]),
                                                        (choice->total + m.rates().gap_graph).in(units::us));
  }
  ASSERT_GE(shapes.size(), 80U);
  EXPECT_LT(regret(shapes).mean, 0.03);
  EXPECT_LT(regret(shapes).error, 0.10);
}

/// B,Hq,Hkv,D,S,page,splits,us_total,us_attention,us_combine. The planner's splits, or the nearest ones measured.
TEST(OwnRegret, Decode) {
  const auto m = h200();
  struct Measured {
    double splits = 0, us = 0;
  };
  std::map<std::string, std::vector<Measured>> sweep;
  std::map<std::string, AttentionDecode> shape_of;
  for (const Cells& c : rows_of("decode_h200.csv")) {
    const std::string name = c[0] + "," + c[1] + "," + c[2] + "," + c[3] + "," + c[4] + "," + c[5];
    shape_of[name] =
        AttentionDecode{whole(c[0]), whole(c[1]), whole(c[2]), whole(c[3]), whole(c[3]), whole(c[4]), whole(c[5])};
    sweep[name].push_back({std::stod(c[6]), std::stod(c[7])});
  }
  std::map<std::string, Shape> shapes;
  for (const auto& [name, measured] : sweep) {
    const OpPrediction p = predict(shape_of[name], m);
    EXPECT_EQ(p.provenance, Provenance::measured) << name;
    const auto distance = [&](const Measured& x) {
      return std::abs(std::log(x.splits / static_cast<double>(p.attention_plan.splits)));
    };
    const Measured near =
        *std::min_element(measured.begin(), measured.end(),
                          [&](const Measured& a, const Measured& b) { return distance(a) < distance(b); });
    Shape& s = shapes[name];
    for (const Measured& x : measured) s.best = std::min(s.best, x.us);
    s.picked = near.us;
    s.predicted = p.time.in(units::us);
  }
  ASSERT_GE(shapes.size(), 150U);
  EXPECT_LT(regret(shapes).mean, 0.03);
  EXPECT_LT(regret(shapes).error, 0.10);
}

}  // namespace
}  // namespace plumbline::own_regret_test
