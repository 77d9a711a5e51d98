// What the `validate` command does, apart from reading its flags.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "arch/gpu.hpp"
#include "model/predict.hpp"
#include "validate/fit_calibration.hpp"
#include "validate/measurement.hpp"

namespace plumbline {

struct ValidateRequest {
  std::vector<std::string> files;
  std::string gpu;  ///< short name or file; empty: the rows' own
  std::vector<Override> overrides;
  KernelSet kernels = KernelSet::own;
  std::optional<ClockMode> clock;
  std::string calibration_file;
  std::vector<RowFilter> where;
  Seconds at_least;
  std::string format = "table", out_file, rows_file;
  std::optional<double> fail_over_percent;
  // fitting only
  std::string family;
  std::vector<FreeScalar> free;
  bool balance = true;
  std::string source;  ///< provenance text; empty: made from file names, stacks, clocks and the date
};

/// Compares and writes the report to `out` (or the file asked for); messages go to `messages`.
/// done, answered_no (a class is worse than asked), or not_modelled (some rows could not be read or priced).
ExitCode run_against(const ValidateRequest& request, std::ostream& out, std::ostream& messages);

/// Fits and writes the calibration file when one is asked for. Refuses held-out files.
ExitCode run_fit(const ValidateRequest& request, std::ostream& out, std::ostream& messages);

/// "--set memory.bandwidth=6TB/s".
Override parse_override(const std::string& text);

/// "aiconfigurator h200_sxm gemm train, trtllm-1.3.0rc20, burst": what the rows are, for a provenance text.
std::string describe_rows(const std::vector<std::string>& files, const std::vector<Measurement>& rows,
                          const std::optional<ClockMode>& clock);

}  // namespace plumbline
