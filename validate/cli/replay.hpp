// `validate replay` of a recording of operators, and `validate diff` of two recordings.
#pragma once

#include "validate/cli/asked.hpp"
#include "validate/record/recorded.hpp"

namespace plumbline {

/// How a recording is compared and reported, measured just now or replayed.
struct CaseReportRequest {
  AskedCard card;
  AskedReport report;
  AskedRows rows;
  StackChoice stack = usual_stack(KernelSet::own);
  bool kernels_table = false;  ///< what our kernels achieve against what is demanded, as Markdown
};

struct ReplayRequest {
  std::string file;
  CaseReportRequest compared;
};
/// The comparison of a recording.
ExitCode run_replay(const ReplayRequest& request, std::ostream& out, std::ostream& messages);

struct RepeatRequest {
  std::string file, repeat_file;  ///< two recordings of the same cases
  AskedReport report;
};
/// How far the second recording is from the first: answered_no, with a line, when a class moved by more than
/// `fail_over_percent` in the median. Throws BadInput for --format html.
ExitCode run_repeat(const RepeatRequest& request, std::ostream& out, std::ostream& messages);

struct DiffRequest {
  std::string before, after;     ///< both of operators, or both of steps
  std::vector<std::string> ops;  ///< of recordings of operators; empty: all
  AskedReport report;
};
/// answered_no, with a line, where the second takes more than `fail_over_percent` longer in a group. Throws BadInput where
/// the two have nothing in common, or are of different kinds.
ExitCode run_diff(const DiffRequest& request, std::ostream& out, std::ostream& messages);

/// Whose measurements a stack is held against. Throws BadInput for the ideal one, of which nothing is measured.
KernelSet need_measured_set(const StackChoice& stack);

/// Writes the report, says what went wrong, and how it ended; done or a code of its own. `files` are named in the report.
ExitCode report_on(const Recording& recording, const CaseReportRequest& request, const std::vector<std::string>& files,
                   std::ostream& out, std::ostream& messages);

}  // namespace plumbline
