// Reports: a prediction -> text for people (table) or machines (JSON, CSV). One writer a format; none computes anything
// that is not in the prediction already, but sums and ratios of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/advice.hpp"
#include "model/failures.hpp"
#include "model/generate.hpp"
#include "model/kernel_time.hpp"
#include "model/load_time.hpp"
#include "model/predict.hpp"
#include "model/report/columns.hpp"
#include "ops/graph/workload.hpp"
#include "ops/llm/llm.hpp"
#include "ops/memory/fit.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// Which parts of a question were asked; the others are defaults, and reports mark them so.
struct Given {
  bool batch = false, length = false, stack = false, clock = false;
};

/// One step of a model and what was asked to get it.
struct StepReport {
  const Llm& llm;
  const Workload& workload;
  const Machine& machine;
  ClockMode clock;
  RunOptions options;
  const StepPrediction& step;
  /// What the caller assumed beyond the model file and the machine ("--context is not used in prefill").
  std::vector<std::string> remarks;
  /// Operators to explain: all of them ("") or the one of that name. Unset: none.
  std::optional<std::string> explain;
  Fit fit{};  ///< whether it fits, and what would
  Given given{};
  std::int64_t top = 0;  ///< rows of the table's operators; 0: all
  std::vector<Advice> advice{};
  LoadTime load{};
  std::optional<Failures> failures{};  ///< of a long training, where they are asked for
  double training_tokens = 0;          ///< of a whole training, whose days and energy are asked for; 0: they are not
};

/// Share of the dense tensor peak that everybody quotes: the datasheet's, where the clock that it assumes is on file,
/// else the one at the boost clock (which is StepPrediction::mfu's; the roofline is always at the boost clock, as a
/// kernel can be faster than the datasheet's clock allows).
struct Mfu {
  double value = 0;
  double with_repeats = 0;  ///< HFU: FLOPs of training that are computed again count too
  FlopRate peak;            ///< of `math`, the format in which most of the work is done
  DType math = DType::bf16;
  bool datasheet = false;
};
Mfu mfu_of(const StepPrediction& step, const Gpu& gpu);

/// What a table says of memory: the verdict, what is held, what would fit.
std::string memory_lines(const MemoryNeed& need, const Fit& fit, const TextStyle& style);
/// "parallel" and "network" of several GPUs; nothing of one.
std::string parallel_lines(const StepReport& report);
/// "training", of an iteration of training.
std::string training_lines(const StepReport& report);
/// Of a pipeline that trains, what a rank of each stage holds.
std::string stages_memory_line(const StepReport& report);
/// Sequences that go forward and backward at a time; tokens a second of one GPU.
std::int64_t micro_batch(const StepReport& report);
double tokens_per_gpu(const StepReport& report);
/// Of StepReport::training_tokens, with iterations like this one and nothing between them.
struct WholeTraining {
  double days = 0;
  std::optional<double> MWh;      ///< of the GPUs alone
  double days_with_failures = 0;  ///< as long as StepReport::failures let it take; 0: none were asked for
};
std::optional<WholeTraining> whole_training(const StepReport& report);
/// "load", where something says how fast the nodes read.
std::string load_line(const LoadTime& load);
/// "model", "asked" and "assumed". `lengths`: "batch 4, context 1024 (default)".
std::string question_lines(const StepReport& report, const std::string& lengths);

/// Throws BadInput with the nearest name when `report.explain` names no operator of the step.
void check_explained(const StepReport& report);
/// True when `report` asks for the explanation of this operator.
bool explained(const StepReport& report, const Node& node);
/// Of a node that others run beside: which, what they share, and what it costs. Empty for all others.
std::string beside_text(const StepPrediction& step, const NodePrediction& node, const Machine& machine);

/// One operator and what was asked to get it.
struct OpReport {
  const Op& op;
  const Machine& machine;
  ClockMode clock;
  const OpPrediction& prediction;
  bool warm = false;  ///< operands lie in L2 where they fit
  std::vector<std::string> remarks{};
  std::vector<Advice> advice{};
};

/// A prefill and the decode steps behind it. `question.step` is the prefill.
struct GenerateReport {
  const StepReport& question;
  std::int64_t output = 1;
  bool output_given = true;
  const GeneratePrediction& all;
};

std::string step_table(const StepReport& report, const TextStyle& style);
std::string step_json(const StepReport& report);   ///< schema plumbline.llm.v1
std::string step_csv(const StepReport& report);    ///< a row an operator
std::string step_trace(const StepReport& report);  ///< Chrome trace: step, layers, operators; power as a counter
std::string step_html(const StepReport& report);   ///< a page of its own for a meeting (model/report/html)

/// Prefill and decode side by side, for the writers of a whole answer.
Columns phase_columns(const GenerateReport& report);
/// Operators over a whole answer, which takes `all`.
Columns sum_columns(const std::vector<OperatorSum>& operators, Seconds all);
std::string generate_table(const GenerateReport& report, const TextStyle& style);
std::string generate_json(const GenerateReport& report);  ///< schema plumbline.llm.v1, phase "generate"
std::string generate_html(const GenerateReport& report);  ///< a page of its own (model/report/html)
std::string generate_csv(const GenerateReport& report);   ///< a row an operator and phase: sums over its steps

std::string op_table(const OpReport& report, const TextStyle& style);
std::string op_json(const OpReport& report);  ///< schema plumbline.op.v1
std::string op_csv(const OpReport& report);   ///< the ops CSV with one row
std::string op_html(const OpReport& report);  ///< a page of its own (model/report/html)

/// Every assumption behind a report, each once: the machine's, the GPU descriptor's, the model file's, the caller's.
std::vector<std::string> all_assumptions(const Machine& machine, const std::vector<std::string>& model_file,
                                         const std::vector<std::string>& remarks);

/// "library" where the stack begins with our kernels and the card runs none of them.
std::string_view kernels_word(const Machine& machine);

std::vector<std::string> sentences_of(const std::vector<Advice>& advice);
/// "- sentence" a line under "advice"; nothing where there is none.
std::string advice_lines(const std::vector<Advice>& advice, const TextStyle& style);

/// "bf16", or what the model file stores when no precision was asked for: "bf16, experts mxfp4".
std::string weight_format(const Llm& llm, const Workload& workload);
std::string_view kv_format(const Llm& llm, const Workload& workload);
/// What one more token adds to the cache of one sequence, as stored, before any window caps it.
Bytes kv_per_token(const Llm& llm, const Workload& workload);
/// Whether keys and values of former tokens are kept: training keeps what the way back needs instead.
inline bool keeps_cache(const Workload& workload) { return workload.phase != Phase::train; }
/// Tokens a sequence that the phase is about: prompt (prefill, train) or context (decode).
std::int64_t length(const Workload& workload);

}  // namespace plumbline
