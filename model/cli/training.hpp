// Flags of --phase train.
#pragma once

#include "model/cli/common.hpp"
#include "model/failures.hpp"
#include "model/machine.hpp"
#include "model/question/question.hpp"
#include "ops/graph/workload.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline::cli {

struct TrainingFlags {
  double tokens = 0;      ///< --tokens: of the whole training; 0: not asked
  FailureRates failures;  ///< --mtbf, --restart; 0: nothing fails
};

/// Not shown by --help, whose page is full; the page's end and docs/predict-model.md name them.
void add_training_flags(const Command& app, LlmQuestion& asked);
/// ... of a whole training, beside them.
void add_whole_training_flags(const Command& app, TrainingFlags& flags, LlmQuestion& asked);

/// What is assumed of an iteration.
std::vector<std::string> training_remarks(const Workload& workload, const Llm& llm, const Machine& machine);

}  // namespace plumbline::cli
