// `validate fit-bands` and `validate coverage`.
#pragma once

#include "validate/cli/asked.hpp"

namespace plumbline {

struct FitBandsRequest {
  std::vector<std::string> lists;  ///< data/studies/bands.json
  std::string gpu, calibration_file, out_file, report_file;
};
/// Finds error bands on the training rows of the lists and writes them into a calibration when a file is named.
ExitCode run_fit_bands(const FitBandsRequest& request, std::ostream& out, std::ostream& messages);

struct CoverageRequest {
  std::vector<std::string> lists;
  std::string calibration_file;  ///< in place of its own, of the card that it names
  AskedReport report;
  bool by_distance = false;  ///< on cards that take scalars over too, each left out in turn
};
/// How many held-out rows lie in their bands, by class.
/// Bands of whole steps, which belong to stacks and to no card: to `out_file`, or to `out`.
struct FitStepsRequest {
  std::vector<std::string> lists;
  std::string out_file, report_file;
};
ExitCode run_fit_steps(const FitStepsRequest& request, std::ostream& out, std::ostream& messages);
ExitCode run_coverage(const CoverageRequest& request, std::ostream& out);

}  // namespace plumbline
