// Whole steps, measured beside predicted: time, energy, power, clock, and each operator's part.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/machines.hpp"
#include "validate/record/step.hpp"

namespace plumbline {

/// One operator of the graph, one execution.
struct StepOpRow {
  std::string name, op;
  std::int64_t count = 0;
  Seconds measured, predicted;
};

struct StepRow {
  StepMeasurement measured;
  Seconds predicted, low, high;
  std::optional<Joules> energy;
  std::optional<Watts> power;
  Hertz clock;
  std::vector<StepOpRow> ops;  ///< empty where the operators were not traced
  std::string error;           ///< not empty: why there is no prediction, or no measurement

  bool good() const { return error.empty(); }
  /// ln(predicted / measured).
  double time_error() const;
  std::optional<double> energy_error() const, power_error() const, clock_error() const;
};

struct WholeStepReport {
  MeasuringSession session;
  std::string gpu;
  std::vector<StepRow> rows;
};

/// Prices each step of a recording as its clock mode has it, on that card; kernels are ours and the clock is the
/// step's, whatever the key's options say.
WholeStepReport compare_steps(const StepRecording& recording, const MachineKey& card);
/// ... with a calibration that is on no file yet, and bands of the operators alone, without those of whole steps.
WholeStepReport compare_steps(const StepRecording& recording, const Gpu& gpu, const Calibration& calibration);

std::string step_table(const WholeStepReport& report);
/// A line a step (operator empty) and a line an operator of it; microseconds, joules, watts.
std::string step_csv(const WholeStepReport& report);

}  // namespace plumbline
