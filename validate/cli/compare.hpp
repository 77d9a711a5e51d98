// `validate compare`: anyone's rows held against the predictions.
#pragma once

#include "model/predict.hpp"
#include "validate/cli/asked.hpp"

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

}  // namespace plumbline
