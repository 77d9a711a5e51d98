// Where a library's own rule does not pick the cheapest of what its kernels can launch.
#pragma once

#include <optional>
#include <string>

#include "model/predict.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {

/// A rule that loses more than one part in a hundred, both plans priced alike.
struct RuleLoss {
  const Rule* rule = nullptr;
  OpPrediction picked, cheapest;
};

/// Nothing where the stack's kernel is planned by time, or the rule's pick is as good as any.
std::optional<RuleLoss> rule_loss(const Op& op, const Machine& machine);

/// "TensorRT-LLM's choice of ... picks a CTA a query head, 1 split: 24.4 us; 8 packed query heads, 2 splits would take
/// 9.21 us (its source)."
std::string rule_text(const RuleLoss& loss);

/// By a library whose kernel a tuner picks: what the call takes where the tuner has no entry for it and the first one of its
/// list runs. Nothing where that is no slower than `tuned`.
std::optional<Seconds> untuned_time(const Op& op, const OpPrediction& tuned, const Machine& machine);

/// Both, of one prediction.
struct OtherKernels {
  std::optional<RuleLoss> rule;
  std::optional<Seconds> untuned;
};
OtherKernels other_kernels(const Op& op, const OpPrediction& prediction, const Machine& machine);
/// explain() of model/predict.hpp for a report that says them itself, too.
std::string explain(const Op& op, const OpPrediction& prediction, const Machine& machine, const OtherKernels& others);

}  // namespace plumbline
