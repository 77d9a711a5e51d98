// Measurements of whole models beside predictions (validate compare with rows of `llm`), and the residuals that bands of
// whole steps are found on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "validate/compare/compare.hpp"
#include "validate/record/model_row.hpp"

namespace plumbline {

struct ModelPricing {
  std::string gpu;  ///< empty: each row's own
  std::vector<Override> overrides;
  StackChoice stack{"trt-llm"};
  bool rows_stack = true;  ///< rows that name a stack of data/stacks are priced with it, not with `stack`
  std::string calibration_file;
  std::optional<ClockMode> clock;  ///< instead of the rows' own
  /// What the engine keeps of the memory: a step that leaves no room for that was not run as the row says.
  double reserve = 0;
};

/// A row and its prediction; `compared.op` is "llm PHASE", `compared.mode` the stack, `compared.shape` model and sizes.
/// The roofline is that of the stack `ideal` at the boost clock.
struct ModelComparison {
  ModelRow row;
  Comparison compared;
  std::string_view kind;  ///< of models, as bands of whole steps have it
};

/// What the row says was run, with what its machine's stack does.
Workload settled_workload(const ModelRow& row, const Llm& llm, const Machine& machine);

/// A row that cannot be priced keeps its reason in `compared.error`: one that does not fit the memory, too, as an engine
/// then ran fewer sequences at a time, and one that was faster than the roofline.
std::vector<ModelComparison> price_model_rows(const std::vector<ModelRow>& rows, const ModelPricing& pricing);

/// By GPU, phase and stack.
std::vector<ClassSummary> summarize_models(const std::vector<ModelComparison>& rows);

std::string models_table(const std::vector<ModelComparison>& rows);
std::string models_json(const std::vector<ModelComparison>& rows);  ///< schema "plumbline.validate.models.v1"
std::string models_csv(const std::vector<ModelComparison>& rows);   ///< a line a row

}  // namespace plumbline
