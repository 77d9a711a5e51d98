// The head of a model's table: what was asked, what was assumed, and whether it fits.
#include <string>
#include <utility>
#include <vector>

#include "arch/fabric/cluster.hpp"
#include "arch/format.hpp"
#include "model/report/report.hpp"
#include "model/stacks/stack.hpp"
#include "model/words.hpp"
#include "ops/llm/layer_kinds.hpp"
#include "ops/memory/memory.hpp"

namespace plumbline {

std::string question_lines(const StepReport& r, const std::string& lengths) {
  std::string model = parameter_count(r.llm.params) + " parameters";
  if (r.llm.active_params < 0.999 * r.llm.params)
    model += ", " + parameter_count(r.llm.active_params) + " active per token";
  if (r.llm.tower_params > 0) model += ", " + parameter_count(r.llm.tower_params) + " more of towers that no text runs";
  if (r.llm.unfilled_params > 0)
    model += ", room for " + parameter_count(r.llm.unfilled_params) + " more that no checkpoint fills";
  const bool caches = keeps_cache(r.workload);
  if (const Bytes kv = kv_per_token(r.llm, r.workload); caches && kv > Bytes{})
    model += ", " + format(kv) + " of KV cache per token";
  const auto published = [](bool given) { return given ? "" : " (as published)"; };
  std::string inputs =
      lengths + ", weights " + weight_format(r.llm, r.workload) + published(r.workload.precision_given);
  if (caches)
    inputs += ", KV cache " + std::string(kv_format(r.llm, r.workload)) + published(r.workload.kv_dtype_given);
  const auto usual = [](bool given) { return given ? "" : " (default)"; };
  const std::string how = "stack " + r.machine.stack().name + usual(r.given.stack) + ", runtime " +
                          std::string(word_of(kRuntimeWords, r.options.runtime)) + ", fusion " +
                          std::string(word_of(kFusionWords, r.workload.fusion)) + ", clock " +
                          std::string(word_of(kClockWords, r.clock)) + usual(r.given.clock) + " (" +
                          format(r.step.clock) + ")";
  std::string warnings;
  for (const std::string& sentence : r.llm.warnings) warnings += labelled("WARNING", sentence);
  return warnings + labelled("model", model) + labelled("layers", layers_text(layer_kinds(r.llm))) +
         labelled("inputs", inputs) + labelled("run as", how);
}

std::string parallel_lines(const StepReport& r) {
  const ParallelPlan& p = r.workload.parallel;
  if (p.ranks() == 1) return "";
  std::string plan;
  for (const auto& [word, degree] : degrees(p)) {
    if (degree > 1) plan += (plan.empty() ? "" : ", ") + std::string(word) + " " + std::to_string(degree);
  }
  if (p.sequence) plan += ", sequence parallel";
  if (p.attention_data) plan += ", data-parallel attention";
  if (r.workload.overlap != Overlap::none) {
    plan += ", overlap " + std::string(word_of(kOverlapWords, r.workload.overlap));
  }
  if (p.pipeline > 1) {
    plan += ", " + std::to_string(r.step.graph.pipeline.micro_batches) + " micro-batches; stage " +
            std::to_string(r.step.stage + 1) + " of " + std::to_string(p.pipeline) + " is the slowest";
  }
  if (p.zero > 0) plan += ", zero " + std::to_string(p.zero);
  plan += "; cluster " + r.machine.rates().fabric->name;
  std::string network = format(r.step.network_exposed) + " of the step";
  if (r.step.network_hidden > Seconds{}) {
    const bool longer = r.step.overlap_tax > 1e-6 * r.step.latency;
    network += ", " + format(r.step.network_hidden) + " hidden behind compute, which is " +
               (longer ? format(r.step.overlap_tax) : "no") + " longer for it";
  }
  if (r.step.graph.copies_beside) {
    network += "; of it copies to and from the host: " + format(r.step.host_exposed) + " and " +
               format(r.step.host_hidden) + " hidden";
  }
  if (r.step.bubble > Seconds{}) network += "; waits " + format(r.step.bubble) + " for other stages";
  return labelled("parallel", plan) + labelled("network", network);
}

/// What a rank of each stage holds: the first ones keep most micro-batches, the last one logits. Of many stages those at the
/// ends.
std::string stages_memory_line(const StepReport& r) {
  constexpr std::size_t kAll = 8, kAtAnEnd = 3;
  if (r.workload.phase != Phase::train || r.workload.parallel.pipeline == 1) return "";
  const std::vector<MemoryNeed> stages = memory_of_stages(r.llm, r.workload);
  std::string text;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (stages.size() > kAll && i == kAtAnEnd) {
      text += ", ...";
      i = stages.size() - kAtAnEnd;
    }
    text +=
        (text.empty() ? "" : ", ") + format(stages[i].total()) + " (activations " + format(stages[i].activations) + ")";
  }
  return labelled("  stages", text);
}

std::string training_lines(const StepReport& r) {
  if (r.workload.phase != Phase::train) return "";
  const Training& t = r.workload.training;
  const PipelineStages& pipeline = r.step.graph.pipeline;
  std::string how = std::to_string(pipeline.micro_batches) + " micro-batches of " + std::to_string(micro_batch(r)) +
                    ", gradients " + std::string(name(t.gradient)) + ", optimizer " +
                    std::string(word_of(kOptimizerWords, t.optimizer)) + ", recompute " +
                    std::string(word_of(kRecomputeWords, t.recompute));
  if (t.recomputed_layers > 0) how += " of " + std::to_string(t.recomputed_layers) + " layers";
  if (t.flat_shards) how += ", fsdp 1";
  if (pipeline.stages > 1) how += ", schedule " + std::string(word_of(kScheduleWords, t.schedule));
  if (t.chunks > 1) how += ", " + std::to_string(t.chunks) + " chunks a stage";
  const Mfu mfu = mfu_of(r.step, r.machine.gpu());
  how += "; HFU " + percent(mfu.with_repeats) + ", " + format(tokens_per_gpu(r)) + " tokens/s a GPU";
  std::string lines = labelled("training", how);
  if (const auto whole = whole_training(r)) {
    std::string text = format(r.training_tokens) + " tokens in " + format(whole->days) + " days";
    if (whole->MWh) text += ", " + format(*whole->MWh) + " MWh of the GPUs";
    if (r.failures) text += "; with failures " + format(whole->days_with_failures) + " days";
    lines += labelled("  whole", text);
  }
  if (const auto& f = r.failures) {
    lines += labelled("  failures", "one in " + format(f->between) + " of the run; a checkpoint takes " +
                                        format(f->checkpoint) + ", best every " + format(f->interval) + "; a restart " +
                                        format(f->restart) + "; " + percent(f->trains) + " of the time trains");
  }
  return lines;
}

std::int64_t micro_batch(const StepReport& r) {
  const std::int64_t replica = (r.workload.batch + r.workload.parallel.data - 1) / r.workload.parallel.data;
  const std::int64_t parts = r.step.graph.pipeline.micro_batches;
  return (replica + parts - 1) / parts;
}

double tokens_per_gpu(const StepReport& r) {
  return r.step.tokens_per_s / static_cast<double>(r.workload.parallel.ranks());
}

std::optional<WholeTraining> whole_training(const StepReport& r) {
  if (r.training_tokens <= 0) return std::nullopt;
  constexpr double kSecondsADay = 86400, kJoulesAMWh = 3.6e9;
  WholeTraining whole;
  whole.days = r.training_tokens / r.step.tokens_per_s / kSecondsADay;
  if (r.failures) whole.days_with_failures = whole.days / r.failures->trains;
  if (r.step.energy) {
    whole.MWh = r.training_tokens * r.step.energy->in(units::J) / r.step.graph.tokens / kJoulesAMWh;
  }
  return whole;
}

std::string load_line(const LoadTime& load) {
  if (!load.total()) return "";
  return labelled("load", format(*load.total()) + " to bring the weights to all GPUs: " + format(*load.storage) +
                              " from storage, " + format(load.host) + " from the host, at the same time");
}

namespace {

std::string limit(const std::optional<std::int64_t>& most) { return most ? std::to_string(*most) : "unlimited"; }

}  // namespace

std::string memory_lines(const MemoryNeed& need, const Fit& fit, const TextStyle& style) {
  std::string parts;
  const std::pair<const char*, Bytes> named[] = {{"weights", need.weights},         {"KV cache", need.kv_cache},
                                                 {"activations", need.activations}, {"gradients", need.gradients},
                                                 {"optimizer", need.optimizer},     {"workspace", need.workspace}};
  for (const auto& [label, bytes] : named) {
    if (bytes > 0.0 * units::B) parts += (parts.empty() ? "" : ", ") + std::string(label) + " " + format(bytes);
  }
  if (need.host > Bytes{}) parts += "; in the host's memory " + format(need.host);
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
