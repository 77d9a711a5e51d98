// What `validate` can be asked, as a table: each mode, the flags that it takes, and the function that does it. Flags are
// read elsewhere (validate_main.cpp); this knows no parser and no CUDA.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "validate/cli/calibrate.hpp"
#include "validate/cli/live.hpp"
#include "validate/cli/steps.hpp"

namespace plumbline {

/// The command line as it was given.
struct Flags {
  std::set<std::string> given;  ///< names, "--gpu"
  // modes
  std::vector<std::string> against, fit, fit_power, power_table, fit_bands, coverage, sides;
  std::string replay, accuracy;
  // which card, which rows, what to write where
  std::string gpu, calibration, kernels = "own", clock;
  std::vector<std::string> sets, where, ops;
  double min_us = 0;
  std::string format = "table", out, report, rows, probes;
  std::optional<double> fail_over_percent;
  // fits and tables
  std::string family, source;
  std::vector<std::string> free;
  double least_cap_percent = 0, most_cap_percent = 1000;
  // card
  std::vector<std::string> studies;
  std::string repeat;
  int gpus = 1;
  // one step
  std::string step_model, phase, step_dtype;
  std::int64_t batch = 1, context = 1024, prompt = 1024, page = 64;

  bool has(std::string_view flag) const { return given.count(std::string(flag)) > 0; }
};

/// Where measurements come from, and where text goes.
struct Surroundings {
  MakeMeasurer measurer;
  MakeStepMeasurer step_measurer;
  RunProbes probes;
  std::istream& in;
  std::ostream& out;
  std::ostream& messages;
  bool terminal = false;  ///< messages go to one
};

struct Mode {
  std::string_view flag;                ///< that asks for it: "--against"; "--step" and "" are of the card
  std::vector<std::string_view> takes;  ///< the other flags that mean something to it
  ExitCode (*run)(const Flags& flags, const Surroundings& around);
};

/// All of them, those that are asked for by a flag first.
const std::vector<Mode>& modes();

/// The mode that the flags ask for. Throws BadInput when one of them has no meaning to it, a second mode's for one.
const Mode& mode_of(const Flags& flags);

}  // namespace plumbline
