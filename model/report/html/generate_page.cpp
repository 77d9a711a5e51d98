// A whole answer of a model as one page: the verdict, the figures, prefill and decode side by side, where time goes.
#include <algorithm>
#include <string>
#include <vector>

#include "arch/format.hpp"
#include "model/report/html/markup.hpp"
#include "model/report/html/page_parts.hpp"
#include "model/report/html/stacked_bar.hpp"
#include "model/report/report.hpp"
#include "model/stacks/stack.hpp"
#include "model/words.hpp"
#include "ops/llm/layer_kinds.hpp"

namespace plumbline {
namespace {

std::string headline(const GenerateReport& r) {
  const GeneratePrediction& all = r.all;
  std::vector<html::Tile> tiles{
      {"latency of the answer", format(all.latency), "5-95 % band " + format(all.low) + " to " + format(all.high)},
      {"TTFT", format(all.ttft()), "the prefill"}};
  if (const auto tpot = all.tpot()) {
    tiles.push_back({"TPOT", format(*tpot),
                     "mean of " + std::to_string(all.steps) + " decode steps: " + format(all.first.latency) +
                         " the first, " + format(all.last.latency) + " the last"});
  }
  tiles.push_back({"throughput", format(all.tokens / all.latency.in(units::s)) + " output tokens/s",
                   r.question.fit.fits ? "" : "if it fitted"});
  if (all.energy) {
    tiles.push_back({"energy", format(*all.energy),
                     "band " + format(*all.energy_low) + " to " + format(*all.energy_high) + "; " +
                         format(*all.energy / all.tokens) + " per output token"});
    tiles.push_back({"power, mean", format(*all.power()), all.prefill.graph.ranks > 1 ? "of a GPU" : ""});
  }
  return html::tiles(tiles);
}

/// The operators that take longest, prefill and decode apart; the others in one part.
std::vector<html::Part> operator_parts(const GeneratePrediction& all) {
  constexpr std::size_t kShown = 7;
  std::vector<OperatorSum> ops = all.ops;
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
  std::vector<html::Part> parts;
  Seconds others;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (i >= kShown) {
      others += ops[i].time;
      continue;
    }
    parts.push_back({std::string(word_of(kPhaseWords, ops[i].phase)) + " " + ops[i].name, format(ops[i].time),
                     ops[i].time / all.latency, "c" + std::to_string(i)});
  }
  if (others > Seconds{}) parts.push_back({"others", format(others), others / all.latency, "other"});
  return parts;
}

std::string time_section(const GeneratePrediction& all) {
  const auto bar = [](const char* heading, const std::vector<html::Part>& parts, const char* what) {
    return "<h3>" + std::string(heading) + "</h3>\n" + html::stacked_bar(parts, what) + html::legend(parts);
  };
  std::vector<html::Part> phases{{"prefill", format(all.prefill.latency), all.prefill.latency / all.latency, "c0"}};
  if (all.steps > 0) phases.push_back({"decode", format(all.decode), all.decode / all.latency, "c1"});
  std::vector<html::Part> bounds;
  for (const html::NamedShare& share : html::time_shares(all.share)) {
    bounds.push_back({share.label, format(share.share * all.latency), share.share, share.css});
  }
  return html::section("Where the time goes", bar("By phase", phases, "time of the answer by phase") +
                                                  bar("By operator", operator_parts(all), "time by operator") +
                                                  bar("By what binds it", bounds, "time by bound"));
}

std::string phases_section(const GenerateReport& r) {
  return html::section("Phases",
                       html::table(phase_columns(r)) + html::note("MFU and MBU of decode: of the last step."));
}

std::string operators_section(const GeneratePrediction& all) {
  return html::section("Operators", html::table(sum_columns(all.ops, all.latency)), true);
}

}  // namespace

std::string generate_html(const GenerateReport& r) {
  const StepReport& q = r.question;
  const std::string title =
      q.llm.name + ", generate, on " + std::to_string(q.workload.parallel.ranks()) + " x " + q.machine.gpu().title;
  std::string asked = "batch " + std::to_string(q.workload.batch) + ", prompt " + std::to_string(q.workload.prompt);
  if (q.workload.cached > 0) asked += " behind " + std::to_string(q.workload.cached) + " cached tokens";
  asked += ", output " + std::to_string(r.output) + ", weights " + weight_format(q.llm, q.workload) + ", KV cache " +
           std::string(kv_format(q.llm, q.workload)) + ", stack " + q.machine.stack().name;
  const bool last_is_fuller = r.all.steps > 0 && r.all.last.graph.memory.total() > r.all.prefill.graph.memory.total();
  const MemoryNeed& need = last_is_fuller ? r.all.last.graph.memory : r.all.prefill.graph.memory;
  std::string body = "<h1>" + html::escaped(title) + "</h1>\n<p class=\"soft\">" + html::escaped(asked) + "</p>\n";
  if (!q.llm.warnings.empty()) body += html::section("Warnings", html::bullets(q.llm.warnings));
  body += html::fit_verdict(need, q.fit) + headline(r) + time_section(r.all) + phases_section(r);
  body += html::memory_section(need, q.fit) + operators_section(r.all);
  body += html::section("Inputs", html::facts({{"layers", layers_text(layer_kinds(q.llm))}}));
  const auto sentences = all_assumptions(q.machine, q.llm.assumptions, q.remarks);
  if (!sentences.empty()) body += html::section("Assumptions", html::bullets(sentences), true);
  return html::document(title, body);
}

}  // namespace plumbline
