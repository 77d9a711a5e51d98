#include "model/report/rule_loss.hpp"

#include <variant>

#include "arch/format.hpp"
#include "model/machines.hpp"
#include "model/stacks/providers.hpp"

namespace plumbline {
namespace {

std::string cut_text(const AttentionPlan& plan) {
  const std::string heads =
      plan.packed_heads > 1 ? std::to_string(plan.packed_heads) + " packed query heads" : "a CTA for each query head";
  return heads + ", " + std::to_string(plan.splits) + (plan.splits == 1 ? " split" : " splits");
}

}  // namespace

std::optional<RuleLoss> rule_loss(const Op& op, const Machine& machine) {
  constexpr double kWorthSaying = 1.01;
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
  constexpr double kWorthSaying = 1.01;
  const auto* experts = std::get_if<Moe>(&op);
  if (experts == nullptr || machine.kernels() != KernelSet::library) return std::nullopt;
  const bool of_vllm = tuned.provider == "vllm_experts";
  const bool by_flashinfer = of_vllm && experts->precision.input == DType::fp8 && experts->block == 0;
  if (tuned.provider != "generic" && !by_flashinfer) return std::nullopt;
  MachineOptions options = machine.options();
  options.stack = {};
  options.stack.name = "vllm-untuned";  // whose experts are those of both
  Predictor predictor;
  OpPrediction untuned;
  predictor.predict(op, make_machine(machine.gpu(), machine.calibration(), options), untuned);
  if (untuned.time <= kWorthSaying * tuned.time) return std::nullopt;
  return untuned.time;
}

}  // namespace plumbline
