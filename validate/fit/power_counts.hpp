// What a measured run did, counted from the engine's own plans: the input of the power fit.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/engine/power.hpp"
#include "model/predict.hpp"
#include "validate/fit/fit_power.hpp"

namespace plumbline {

/// One run, in the terms that energies belong to.
struct PowerCounts {
  Activity work;  ///< of one execution, all launches together
  DType math = DType::bf16;
  Seconds time;      ///< as measured
  double share = 1;  ///< of the boost clock, as set
  DataPattern data = DataPattern::normal;
  double watts = 0;                   ///< 0: not measured
  std::optional<double> cycles_left;  ///< SM clock / clock set, where tensor units work
  const PowerRow* row = nullptr;
};

/// Machines whose clock is the boost clock, for plans and demands.
class PowerPlanner {
 public:
  PowerPlanner(const Gpu& gpu, const Calibration& calibration);
  const OpPrediction& operator()(const PowerRow& row);

 private:
  Gpu gpu_;
  Calibration calibration_;
  std::map<KernelSet, std::optional<Machine>> machines_;
  Predictor predictor_;
  std::unique_ptr<OpPrediction> scratch_ = std::make_unique<OpPrediction>();
};

/// Throws as predict() does for an op that cannot be priced. Keeps a pointer to `row`.
PowerCounts count_work(const PowerRow& row, PowerPlanner& planner, const Gpu& gpu);

/// Steady rows as CSV for analysis elsewhere: what was measured, the counts, and what a free run predicts.
std::string power_rows_csv(const Gpu& gpu, const Calibration& calibration, const std::vector<PowerRow>& rows,
                           const PowerTableOptions& options);

}  // namespace plumbline
