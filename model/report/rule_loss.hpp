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

/// Experts by a library whose tiles a tuner picks (TensorRT-LLM's, FlashInfer's copy of them in vLLM): what the call takes where the
/// tuner has no entry for it and the first tile of the list runs. Nothing where that is no slower than `tuned`.
std::optional<Seconds> untuned_time(const Op& op, const OpPrediction& tuned, const Machine& machine);

}  // namespace plumbline
