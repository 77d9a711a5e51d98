// `validate --replay` of a recording of operators.
#pragma once

#include "validate/cli/asked.hpp"
#include "validate/record/recorded.hpp"

namespace plumbline {

/// How a recording is compared and reported, measured just now or replayed.
struct CaseReportRequest {
  AskedCard card;
  AskedReport report;
  AskedRows rows;
  KernelSet kernels = KernelSet::own;
  bool kernels_table = false;  ///< what our kernels achieve against what is demanded, as Markdown
};

struct ReplayRequest {
  std::string file;
  std::string repeat_file;  ///< another recording of the same cases
  CaseReportRequest compared;
};

/// The comparison of a recording. With `repeat_file`: how far that one is from it instead, answered_no when a class moved
/// by more than `fail_over_percent` in the median.
ExitCode run_replay(const ReplayRequest& request, std::ostream& out, std::ostream& messages);

/// Throws BadInput for the ideal kernel set, of which nothing is measured.
void need_measured_set(KernelSet kernels);

/// Writes the report to `report_file` or `out`, lists what went wrong, and says how it ended; done or a code of its own.
/// `files` are named in the report.
ExitCode report_on(const Recording& recording, const CaseReportRequest& request, const std::vector<std::string>& files,
                   const std::string& report_file, std::ostream& out, std::ostream& messages);

}  // namespace plumbline
