// A step of a model as a table for people, 120 columns at most.
#include <algorithm>
#include <string>
#include <utility>

#include "arch/format.hpp"
#include "model/report/report.hpp"
#include "model/stacks/stack.hpp"
#include "model/words.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

std::string_view step_noun(Phase phase) {
  switch (phase) {
    case Phase::prefill: return "one prefill of the whole batch";
    case Phase::decode: return "one decode step (a token a sequence)";
    case Phase::train: return "one training iteration";
  }
  return "one step";
}

std::string header(const StepReport& r, const TextStyle& style) {
  const Gpu& card = r.machine.gpu();
  std::string first =
      r.llm.name + ", " + std::string(word_of(kPhaseWords, r.workload.phase)) + ", on 1 x " + card.title;
  if (card.title != card.name) first += " (" + card.name + ")";
  std::string model = parameter_count(r.llm.params) + " parameters";
  if (r.llm.active_params < 0.999 * r.llm.params)
    model += ", " + parameter_count(r.llm.active_params) + " active a token";
  if (const Bytes kv = kv_per_token(r.llm, r.workload); kv > Bytes{}) model += ", " + format(kv) + " of cache a token";
  const std::string asked = "batch " + std::to_string(r.workload.batch) +
                            (r.workload.phase == Phase::decode ? ", context " : ", prompt ") +
                            std::to_string(length(r.workload)) + ", weights " + weight_format(r.llm, r.workload) +
                            ", KV cache " + std::string(kv_format(r.llm, r.workload));
  const std::string how = "stack " + r.machine.stack().name + ", runtime " +
                          std::string(word_of(kRuntimeWords, r.options.runtime)) + ", fusion " +
                          std::string(word_of(kFusionWords, r.workload.fusion)) + ", clock " +
                          std::string(word_of(kClockWords, r.clock)) + " (" + format(r.step.clock) + ")";
  return style.bold(first) + "\n" + labelled("model", model) + labelled("asked", asked) + labelled("assumed", how) +
         "\n";
}

std::string memory_line(const StepReport& r, const TextStyle& style) {
  const MemoryNeed& need = r.step.graph.memory;
  const Bytes capacity = r.machine.gpu().memory.capacity;
  std::string parts;
  const std::pair<const char*, Bytes> named[] = {{"weights", need.weights},
                                                 {"KV cache", need.kv_cache},
                                                 {"activations", need.activations},
                                                 {"optimizer", need.optimizer},
                                                 {"workspace", need.workspace}};
  for (const auto& [label, bytes] : named) {
    if (bytes > 0.0 * units::B) parts += (parts.empty() ? "" : ", ") + std::string(label) + " " + format(bytes);
  }
  const std::string verdict = r.step.fits ? style.good("fits") : style.bad("DOES NOT FIT");
  return labelled("memory", verdict + ": " + format(need.total()) + " of " + format(capacity) + " (" +
                                percent(need.total() / capacity) + ")") +
         labelled("  holds", parts);
}

std::string summary(const StepReport& r, const TextStyle& style) {
  const StepPrediction& s = r.step;
  std::string time = style.bold(format(s.latency)) + "  (5-95 % band " + format(s.low) + " to " + format(s.high) +
                     ")  " + std::string(step_noun(r.workload.phase));
  std::string out = labelled("latency", time);
  std::string rate = format(s.tokens_per_s) + " tokens/s";
  if (r.workload.phase == Phase::decode && r.workload.batch > 1) {
    rate += ", " + format(s.tokens_per_s / static_cast<double>(r.workload.batch)) + " a sequence";
  }
  out += labelled("throughput", rate);
  out += memory_line(r, style);
  const std::pair<const char*, double> shares[] = {{"compute", s.share.compute},
                                                   {"memory", s.share.memory},
                                                   {"network", s.share.network},
                                                   {"latency", s.share.latency},
                                                   {"launch", s.share.launch}};
  std::string spent;
  for (const auto& [label, share] : shares) {
    if (share > 0) spent += (spent.empty() ? "" : ", ") + std::string(label) + " " + percent(share);
  }
  out += labelled("time goes to", spent);
  if (s.power_limited) {
    out += labelled("limit", "power: " + format(s.clock) + " of " + format(r.machine.gpu().boost_clock) +
                                 "; uncapped " + format(s.uncapped));
  }
  out += labelled("utilisation", "MFU " + percent(s.mfu) + ", MBU " + percent(s.mbu) + "; work " + format(s.flops) +
                                     ", DRAM traffic " + format(s.dram_bytes));
  const std::string watts =
      s.power ? format(*s.power) + " mean (band " + format(*s.power_low) + " to " + format(*s.power_high) + "), " : "";
  if (s.energy && s.graph.tokens > 0) {
    const Joules token = *s.energy / s.graph.tokens;
    out += labelled("power", watts + format(*s.energy) + " a step, " + format(token) + " a token (" +
                                 format(1.0 * units::J / token) + " tokens/J)");
  } else if (s.energy) {
    out += labelled("power", watts + format(*s.energy) + " a step");
  }
  return out + "\n";
}

std::string bound_words(const OpPrediction& op) {
  return std::string(name(op.bound)) + ", " + std::string(name(op.limiter)) + " " + percent(op.limiter_share);
}

std::string operators(const StepReport& r, const TextStyle& style) {
  using enum Columns::Align;
  Columns table({{"operator"},
                 {"kind"},
                 {"count", right},
                 {"each", right},
                 {"total", right},
                 {"of step", right},
                 {"bound, limiter"},
                 {"FLOPs", right},
                 {"DRAM", right},
                 {"FLOP/B", right}});
  const auto& segments = r.step.graph.segments;
  const auto repeats = [](const Segment& s) { return s.repeat > 1; };
  const bool kinds_of_layer = std::count_if(segments.begin(), segments.end(), repeats) > 1;
  int segment = -1;
  Seconds gaps;
  for (const NodePrediction& n : r.step.nodes) {
    if (kinds_of_layer && n.node->segment != segment) {
      segment = n.node->segment;
      const Segment& s = segments.at(static_cast<std::size_t>(segment));
      table.add({std::string(s.name) + " x " + std::to_string(s.repeat) + ":"});
    }
    const double count = static_cast<double>(n.node->count);
    const Seconds total = count * n.op.time;
    gaps += count * n.gap;
    std::string label = n.node->name;
    if (n.node->pass == Pass::backward) label += " (bwd)";
    const bool moves_bytes = n.op.dram_bytes() > 0.0 * units::B;
    table.add({label, std::string(op_name(n.node->op)), std::to_string(n.node->count), format(n.op.time), format(total),
               percent(total / r.step.latency), bound_words(n.op), format(n.op.flops), format(n.op.dram_bytes()),
               moves_bytes ? format(n.op.intensity().in(units::FLOP_per_B)) : "-"});
  }
  table.add_rule();
  if (gaps > 0.0 * units::s) {
    table.add({"launch gaps", "", "", "", format(gaps), percent(gaps / r.step.latency)});
  }
  table.add({"step", "", "", "", format(r.step.latency), "100 %", "", format(r.step.flops), format(r.step.dram_bytes)});
  return table.text(2, style) +
         "  each, FLOPs and DRAM: one execution, with the gaps between launches of a CUDA graph\n";
}

std::string explanations(const StepReport& r, const TextStyle& style) {
  std::string out;
  for (const NodePrediction& n : r.step.nodes) {
    if (!explained(r, *n.node)) continue;
    out += "\n" +
           style.bold(std::string(n.node->name) + ": " + std::string(op_name(n.node->op)) + " " +
                      std::string(dtype_text(n.node->op)) + " " + shape_text(n.node->op) + ", " +
                      std::to_string(n.node->count) + " a step") +
           "\n" + fitted(explain(n.node->op, n.op, r.machine));
  }
  return out;
}

}  // namespace

std::string step_table(const StepReport& report, const TextStyle& style) {
  std::string out = header(report, style) + summary(report, style) + operators(report, style);
  out += explanations(report, style);
  const auto sentences = all_assumptions(report.machine, report.llm.assumptions, report.remarks);
  if (!sentences.empty()) out += "\n";
  return out + bullets("assumptions", sentences, style);
}

}  // namespace plumbline
