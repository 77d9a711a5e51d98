// The head of a model's table: what was asked, what was assumed, and whether it fits.
#include <string>
#include <utility>

#include "arch/format.hpp"
#include "model/report/report.hpp"
#include "model/stacks/stack.hpp"
#include "model/words.hpp"

namespace plumbline {

std::string question_lines(const StepReport& r, const std::string& lengths) {
  std::string model = parameter_count(r.llm.params) + " parameters";
  if (r.llm.active_params < 0.999 * r.llm.params)
    model += ", " + parameter_count(r.llm.active_params) + " active per token";
  if (const Bytes kv = kv_per_token(r.llm, r.workload); kv > Bytes{})
    model += ", " + format(kv) + " of KV cache per token";
  const auto published = [](bool given) { return given ? "" : " (as published)"; };
  const std::string inputs = lengths + ", weights " + weight_format(r.llm, r.workload) +
                             published(r.workload.precision_given) + ", KV cache " +
                             std::string(kv_format(r.llm, r.workload)) + published(r.workload.kv_dtype_given);
  const auto usual = [](bool given) { return given ? "" : " (default)"; };
  const std::string how = "stack " + r.machine.stack().name + usual(r.given.stack) + ", runtime " +
                          std::string(word_of(kRuntimeWords, r.options.runtime)) + ", fusion " +
                          std::string(word_of(kFusionWords, r.workload.fusion)) + ", clock " +
                          std::string(word_of(kClockWords, r.clock)) + usual(r.given.clock) + " (" +
                          format(r.step.clock) + ")";
  return labelled("model", model) + labelled("inputs", inputs) + labelled("run as", how);
}

namespace {

std::string limit(const std::optional<std::int64_t>& most) { return most ? std::to_string(*most) : "unlimited"; }

}  // namespace

std::string memory_lines(const MemoryNeed& need, const Fit& fit, const TextStyle& style) {
  std::string parts;
  const std::pair<const char*, Bytes> named[] = {{"weights", need.weights},
                                                 {"KV cache", need.kv_cache},
                                                 {"activations", need.activations},
                                                 {"optimizer", need.optimizer},
                                                 {"workspace", need.workspace}};
  for (const auto& [label, bytes] : named) {
    if (bytes > 0.0 * units::B) parts += (parts.empty() ? "" : ", ") + std::string(label) + " " + format(bytes);
  }
  std::string verdict = (fit.fits ? style.good("fits") : style.bad("DOES NOT FIT")) + ": " + format(need.total()) +
                        " of " + format(fit.capacity) + " (" + percent(need.total() / fit.capacity) + ")";
  if (fit.reserve > Bytes{}) verdict += ", " + format(fit.reserve) + " reserved for the runtime";
  const std::string gpus =
      fit.fewest_gpus ? std::to_string(*fit.fewest_gpus) : "more than " + std::to_string(Fit::kMostGpus);
  std::string most =
      "batch " + limit(fit.max_batch) + " at this length, length " + limit(fit.max_context) + " at this batch";
  if (!fit.fits) most += "; fewest GPUs of this kind: " + gpus + " (by memory alone)";
  return labelled("memory", verdict) + labelled("  needs", parts) + labelled("  at most", most);
}

}  // namespace plumbline
