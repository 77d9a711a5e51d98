// `validate accuracy`: the table of docs/accuracy.md, and the README's lines, from the committed measurements.
#pragma once

#include "validate/cli/asked.hpp"

namespace plumbline {

struct AccuracyRequest {
  std::string list;  ///< data/studies/accuracy.json
  AskedReport report;
  bool by_gpu = false;  ///< the table has a line a GPU
};

/// answered_no, with a line each, when a median error is above what the list allows.
ExitCode run_accuracy(const AccuracyRequest& request, std::ostream& out, std::ostream& messages);

}  // namespace plumbline
