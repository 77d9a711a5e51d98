// `validate fit-power` and `validate power`.
#pragma once

#include "validate/cli/asked.hpp"

namespace plumbline {

struct FitPowerRequest {
  std::vector<std::string> files;
  AskedCard card;
  AskedRows rows;
  std::string source;  ///< provenance text
  std::string out_file, report_file;
};
/// Fits the power section to steady rows and writes the calibration file when one is asked for. Held-out rows are
/// refused, each with the rule.
ExitCode run_fit_power(const FitPowerRequest& request, std::ostream& out, std::ostream& messages);

struct PowerTableRequest {
  std::vector<std::string> files;
  AskedCard card;
  AskedRows rows;
  double least_cap_percent = 0, most_cap_percent = 1000;  ///< of the board's limit
  std::string rows_file;                                  ///< each row with its counts, as CSV
  AskedReport report;
};
/// Time, power and clock of steady rows against the engine, by class of work.
ExitCode run_power_table(const PowerTableRequest& request, std::ostream& out);

}  // namespace plumbline
