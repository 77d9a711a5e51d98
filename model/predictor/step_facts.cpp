// What is known of a step by its operators alone.
#include <algorithm>

#include "model/bands/step_bands.hpp"
#include "model/predict.hpp"

namespace plumbline {

double computed_again(const Node& node) {
  if (node.again || node.pass == Pass::update) return 1;  // what an optimizer multiplies is not the model's either
  const auto* s = std::get_if<AttentionBackward>(&node.op);
  if (s == nullptr) return 0;
  const auto qk = static_cast<double>(s->qk_dim), v = static_cast<double>(s->v_dim);
  return qk / (3 * qk + 2 * v);
}

std::string_view step_kind(const Graph& graph) {
  const bool experts = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                   [](const Node& node) { return std::holds_alternative<GroupedGemm>(node.op); });
  return experts ? kExpertSteps : kDenseSteps;
}

std::string_view step_kind(const StepPrediction& step) {
  if (!step.waits_for_host) return step_kind(step.graph);
  return step.host_measured ? kMeasuredHostSteps : kWaitingSteps;
}

}  // namespace plumbline
