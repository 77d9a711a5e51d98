#include "model/report/report.hpp"

#include <algorithm>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/gpu/peaks.hpp"
#include "model/stacks/own/own_kernels.hpp"
#include "model/words.hpp"

namespace plumbline {

bool explained(const StepReport& report, const Node& node) {
  return report.explain && (report.explain->empty() || *report.explain == node.name);
}

void check_explained(const StepReport& report) {
  if (!report.explain || report.explain->empty()) return;
  std::vector<std::string> names;
  for (const NodePrediction& n : report.step.nodes) {
    if (explained(report, *n.node)) return;
    names.emplace_back(n.node->name);
  }
  throw BadInput("explain: no operator '" + *report.explain + "' in this step" + did_you_mean(*report.explain, names));
}

std::vector<std::string> all_assumptions(const Machine& machine, const std::vector<std::string>& model_file,
                                         const std::vector<std::string>& remarks) {
  std::vector<std::string> all;
  for (const auto* list : {&machine.assumptions(), &machine.gpu().assumptions, &model_file, &remarks}) {
    for (const std::string& sentence : *list) {
      if (std::find(all.begin(), all.end(), sentence) == all.end()) all.push_back(sentence);
    }
  }
  return all;
}

std::string_view kernels_word(const Machine& machine) {
  const bool none = machine.kernels() == KernelSet::own && !runs_own_kernels(machine.rates());
  return word_of(kKernelSetWords, none ? KernelSet::library : machine.kernels());
}

std::vector<std::string> sentences_of(const std::vector<Advice>& advice) {
  std::vector<std::string> sentences;
  for (const Advice& each : advice) sentences.push_back(each.text);
  return sentences;
}

std::string advice_lines(const std::vector<Advice>& advice, const TextStyle& style) {
  const std::vector<std::string> sentences = sentences_of(advice);
  return sentences.empty() ? "" : bullets("advice", sentences, style) + "\n";
}

Mfu mfu_of(const StepPrediction& step, const Gpu& gpu) {
  const bool datasheet = gpu.datasheet_tensor_clock > Hertz{};
  const Hertz clock = datasheet ? gpu.datasheet_tensor_clock : gpu.boost_clock;
  PerDType<Flops> by_format;
  Seconds at_peak;
  Mfu mfu;
  Flops most;
  for (const NodePrediction& n : step.nodes) {
    const Flops work = static_cast<double>(n.node->count) * n.op.tensor;
    const FlopRate peak = tensor_peak(gpu, n.op.math, clock);
    if (!(peak > FlopRate{})) continue;
    const Seconds all = work / peak;
    mfu.with_repeats += step.stages.mean_work * all / step.latency;
    at_peak += (1 - computed_again(*n.node)) * all;
    by_format[n.op.math] += work;
    if (by_format[n.op.math] > most) most = by_format[n.op.math], mfu.math = n.op.math;
  }
  mfu.value = step.stages.mean_needed * at_peak / step.latency;
  mfu.peak = tensor_peak(gpu, mfu.math, clock);
  mfu.datasheet = datasheet;
  return mfu;
}

std::string weight_format(const Llm& llm, const Workload& workload) {
  if (workload.precision_given) return std::string(name(workload.precision));
  const Quantization& stored = llm.quantization;
  if (stored.method == "none") return std::string(name(llm.dtype));
  std::string text(name(stored.linear));
  if (stored.experts != stored.linear) text += ", experts " + std::string(name(stored.experts));
  return text;
}

std::string_view kv_format(const Llm& llm, const Workload& workload) {
  return name(workload.kv_dtype_given ? workload.kv_dtype : llm.quantization.kv);
}

Bytes kv_per_token(const Llm& llm, const Workload& workload) {
  return storage(workload.kv_dtype_given ? workload.kv_dtype : llm.quantization.kv, llm.kv_elements_per_token);
}

std::int64_t length(const Workload& workload) {
  return workload.phase == Phase::decode ? workload.context : workload.prompt;
}

}  // namespace plumbline
