// What a user could change to be faster: another size, another page, fewer launches. Each is priced as the operator or step
// itself is, and said where it gains more than 2 %.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/predict.hpp"

namespace plumbline {

struct Advice {
  std::string_view kind;  ///< "padding", "wave", "page", "launches", "graph", "stack"
  std::string text;       ///< a sentence: what to change, what it takes then, by which factor
  Seconds time;           ///< what the operator, or the step, takes then
  /// Of a step, of all GPUs, where that can be said.
  std::optional<Joules> energy{};
};

/// What gains less is not said.
inline constexpr double kLeastGain = 0.02;

/// Of one operator, as it was predicted:
///  - padding: rows of a GEMM that are no multiple of 16 bytes, rounded up;
///  - wave: a size of a GEMM whose last wave is full, where a row (or column) is cheaper then;
///  - page: a page of the KV cache that the kernels read better.
std::vector<Advice> advise(const Op& op, const OpPrediction& prediction, const Machine& machine, Predictor& predictor,
                           const PredictOptions& options = {});

/// Of a step: padding of its GEMMs' weights; graph: launches in a CUDA graph where they are not; launches: neighbours that
/// mostly start and end, as one kernel each.
std::vector<Advice> advise(const StepPrediction& step, const Machine& machine, const RunOptions& options,
                           Predictor& predictor);

/// What a stack leaves on the table: the same step by `other`, in its own fusions and launches, and what of the launch
/// list that saves; nothing where that is not quicker by 2 %. `by`: the other's name.
std::optional<Advice> advise_stack(const StepPrediction& step, const StepPrediction& other, const std::string& by);

/// That the quickest other stack, `by`, gains less than that: nothing is left on the table.
Advice none_quicker(const StepPrediction& step, const StepPrediction& other, const std::string& by);

}  // namespace plumbline
