#include "model/report/rule_loss.hpp"

#include "arch/format.hpp"
#include "model/machines.hpp"
#include "model/stacks/providers.hpp"

namespace plumbline {
namespace {

constexpr double kWorthSaying = 1.01;  // the other kernel's time over that of the one that runs

std::string cut_text(const AttentionPlan& plan) {
  const std::string heads =
      plan.packed_heads > 1 ? std::to_string(plan.packed_heads) + " packed query heads" : "a CTA for each query head";
  return heads + ", " + std::to_string(plan.splits) + (plan.splits == 1 ? " split" : " splits");
}

}  // namespace

OtherKernels other_kernels(const Op& op, const OpPrediction& prediction, const Machine& machine) {
  return {rule_loss(op, machine), untuned_time(op, prediction, machine)};
}

std::optional<RuleLoss> rule_loss(const Op& op, const Machine& machine) {
  if (machine.kernels() != KernelSet::library) return std::nullopt;
  Predictor predictor;
  RuleLoss out;
  predictor.predict(op, machine, out.picked);
  const Provider* provider = find_provider(out.picked.provider);
  out.rule = provider == nullptr ? nullptr : provider->rule(op);
  if (out.rule == nullptr) return std::nullopt;
  predictor.predict(op, machine, out.cheapest, PredictOptions{.cut_by_time = true});
  if (out.picked.time <= kWorthSaying * out.cheapest.time) return std::nullopt;
  return out;
}

std::string rule_text(const RuleLoss& loss) {
  return std::string(loss.rule->library) + "'s " + std::string(loss.rule->what) + " picks " +
         cut_text(loss.picked.attention_plan) + ": " + format(loss.picked.time) + "; " +
         cut_text(loss.cheapest.attention_plan) + " would take " + format(loss.cheapest.time) + " (" +
         std::string(loss.rule->source) + ")";
}

std::optional<Seconds> untuned_time(const Op& op, const OpPrediction& tuned, const Machine& machine) {
  if (machine.kernels() != KernelSet::library) return std::nullopt;
  const Provider* provider = find_provider(tuned.provider);
  const std::string_view stack = provider == nullptr ? "" : provider->untuned_stack(op);
  if (stack.empty()) return std::nullopt;
  MachineOptions options = machine.options();
  options.stack = {};
  options.stack.name = stack;
  Predictor predictor;
  OpPrediction untuned;
  predictor.predict(op, make_machine(machine.gpu(), machine.calibration(), options), untuned);
  if (untuned.time <= kWorthSaying * tuned.time) return std::nullopt;
  return untuned.time;
}

}  // namespace plumbline
