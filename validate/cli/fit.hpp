// `validate fit`: scalars of a kernel family fitted to training rows.
#pragma once

#include "validate/cli/asked.hpp"
#include "validate/fit/fit_calibration.hpp"

namespace plumbline {

struct FitRequest {
  std::vector<std::string> files;
  AskedCard card;
  AskedRows rows;
  KernelSet kernels = KernelSet::library;
  std::optional<ClockMode> clock;
  std::string family;
  std::vector<FreeScalar> free;
  bool balance = true;  ///< each size class counts equally
  std::string source;   ///< provenance text; empty: made from file names, stacks, clocks and the date
  std::string out_file, report_file;
};

/// Fits and writes the calibration file when one is asked for. Held-out rows are refused, each with the rule.
ExitCode run_fit(const FitRequest& request, std::ostream& out, std::ostream& messages);

/// "aiconfigurator h200_sxm gemm train, trtllm-1.3.0rc20, burst": what the rows are, for a provenance text.
std::string describe_rows(const std::vector<std::string>& files, const std::vector<Measurement>& rows,
                          const std::optional<ClockMode>& clock);

}  // namespace plumbline
