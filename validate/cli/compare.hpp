// `validate compare`: anyone's rows held against the predictions.
#pragma once

#include "model/predict.hpp"
#include "validate/cli/asked.hpp"
#include "validate/record/model_row.hpp"

namespace plumbline {

struct CompareRequest {
  std::vector<std::string> files;
  AskedCard card;
  AskedReport report;
  AskedRows rows;
  StackChoice stack;
  bool rows_attention = true;      ///< attention rows of another stack: priced with its kernels
  std::optional<ClockMode> clock;  ///< empty: each row's own
  std::string rows_file;           ///< every row with its prediction, as CSV
};

/// Compares and writes the report to `out` (or the file asked for); messages go to `messages`.
/// done, answered_no (a class is worse than asked), or not_modelled (some rows could not be read or priced).
ExitCode run_compare(const CompareRequest& request, std::ostream& out, std::ostream& messages);
/// The same of whole models (validate/record/model_row.hpp). Throws BadInput for html, and for files of both kinds.
ExitCode run_compare_models(const CompareRequest& request, std::ostream& out, std::ostream& messages);

/// A profiler's timeline of a step: a trace of PyTorch, Nsight Compute's CSV, Nsight Systems' export.
struct TimelineRequest {
  std::string file;
  AskedCard card;
  AskedReport report;
  StackChoice stack;
  std::optional<ClockMode> clock;  ///< empty: burst, as profilers see a few steps
  ModelRow step;                   ///< what ran
  std::string out;                 ///< both timelines as one trace; empty: none
};

/// done, or answered_no where the matched operators' predicted time is further off than asked.
ExitCode run_timeline(const TimelineRequest& request, std::ostream& out, std::ostream& messages);

}  // namespace plumbline
