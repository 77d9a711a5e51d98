// A step of a model as one page for a meeting: the verdict, the figures, where time and memory go, how far from the
// roof each operator is, power over time, and what was asked and assumed. No script, nothing fetched.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "arch/format.hpp"
#include "model/report/html/markup.hpp"
#include "model/report/html/page_parts.hpp"
#include "model/report/html/power_plot.hpp"
#include "model/report/html/roofline_plot.hpp"
#include "model/report/html/stacked_bar.hpp"
#include "model/report/html/step_parts.hpp"
#include "model/report/report.hpp"
#include "model/stacks/stack.hpp"
#include "model/words.hpp"
#include "ops/llm/layer_kinds.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

html::Tile bound_tile(const StepPrediction& s) {
  const auto shares = html::time_shares(s.share);
  if (shares.empty()) return {"bound by", "-", ""};
  std::string rest = percent(shares.front().share) + " of the time";
  for (std::size_t i = 1; i < shares.size(); ++i) {
    rest += (i == 1 ? "; " : ", ") + std::string(shares[i].label) + " " + percent(shares[i].share);
  }
  return {"bound by", shares.front().label, rest};
}

html::Tile throughput_tile(const StepReport& r) {
  const double rate = r.step.tokens_per_s;
  std::string rest = r.fit.fits ? "" : "if it fitted";
  if (r.workload.phase == Phase::decode && r.workload.batch > 1) {
    rest += (rest.empty() ? "" : "; ") + format(rate / static_cast<double>(r.workload.batch)) + " per sequence";
  }
  return {"throughput", format(rate) + " tokens/s", rest};
}

html::Tile power_tile(const StepReport& r) {
  const StepPrediction& s = r.step;
  if (!s.power || !s.energy) return {"power", "-", html::no_power(r.machine)};
  std::string rest =
      "5-95 % band " + format(*s.power_low) + " to " + format(*s.power_high) + "; " + format(*s.energy) + " per step";
  if (s.graph.tokens > 0) rest += ", " + format(*s.energy / s.graph.tokens) + " per token";
  return {"power, mean", format(*s.power), rest};
}

/// Utilisation beside the peak that it is of.
html::Tile utilisation_tile(const StepReport& r) {
  const StepPrediction& s = r.step;
  const Mfu mfu = mfu_of(s, r.machine.gpu());
  std::string rest;
  if (mfu.value > 0) {
    rest = "MFU of " + format(mfu.peak) + " " + std::string(name(mfu.math)) +
           (mfu.datasheet ? ", the datasheet's, " : ", at boost, ");
  }
  rest += "MBU of " + format(r.machine.gpu().memory.bandwidth);
  return {"MFU, MBU", percent(mfu.value) + ", " + percent(s.mbu), rest};
}

html::Tile provenance_tile(const StepPrediction& s) {
  std::map<Provenance, std::pair<int, Seconds>> by;
  for (const NodePrediction& n : s.nodes) {
    auto& [count, time] = by[n.op.provenance];
    ++count;
    time += html::total_of(n);
  }
  std::string most, rest;
  Seconds longest;
  for (const auto& [kind, sum] : by) {
    if (sum.second > longest) longest = sum.second, most = html::words(name(kind));
    rest += (rest.empty() ? "" : "; ") + html::words(name(kind)) + ": " + std::to_string(sum.first) + " operator" +
            (sum.first == 1 ? ", " : "s, ") + percent(sum.second / s.latency) + " of the time";
  }
  return {"provenance", most.empty() ? "-" : most, rest};
}

std::string headline(const StepReport& r) {
  const StepPrediction& s = r.step;
  const std::string boost = format(r.machine.gpu().boost_clock);
  const std::string clock_rest =
      std::string(word_of(kClockWords, r.clock)) +
      (s.power_limited ? "; power-limited: " + format(s.clock) + " of " + boost + ", uncapped " + format(s.uncapped)
                       : ", boost " + boost);
  return html::tiles(
      {{"latency of a step", format(s.latency), "5-95 % band " + format(s.low) + " to " + format(s.high)},
       throughput_tile(r),
       power_tile(r),
       bound_tile(s),
       utilisation_tile(r),
       {"SM clock, mean", format(s.clock), clock_rest},
       provenance_tile(s)});
}

std::string time_section(const StepPrediction& s, const html::StepParts& parts) {
  std::vector<html::Part> bounds;
  for (const html::NamedShare& share : html::time_shares(s.share)) {
    bounds.push_back({share.label, format(share.share * s.latency), share.share, share.css});
  }
  return html::section("Where the time goes",
                       "<h3>By operator</h3>\n" + html::stacked_bar(parts.parts, "time of the step by operator") +
                           html::legend(parts.parts) + "<h3>By what binds it</h3>\n" +
                           html::stacked_bar(bounds, "time of the step by bound") + html::legend(bounds));
}

/// Tensor formats that the step multiplies in, the one with most work first; few enough to read.
std::vector<DType> main_formats(const StepPrediction& s) {
  constexpr double kOfAll = 0.05;  // a format with less of the tensor work has no roof drawn
  std::map<DType, Flops> work;
  Flops all;
  for (const NodePrediction& n : s.nodes) {
    const Flops flops = static_cast<double>(n.node->count) * n.op.tensor;
    if (flops > Flops{}) work[n.op.math] += flops;
    all += flops;
  }
  std::vector<DType> out;
  for (const auto& [type, flops] : work) {
    if (flops >= kOfAll * all) out.push_back(type);
  }
  std::stable_sort(out.begin(), out.end(), [&](DType a, DType b) { return work[a] > work[b]; });
  return out;
}

std::string roofline_section(const StepReport& r, const html::StepParts& parts) {
  const StepPrediction& s = r.step;
  std::vector<html::Roof> roofs;
  for (const DType type : main_formats(s)) {
    const html::Roof roof = html::tensor_roof(r.machine.gpu(), type, s.clock);
    // Ideal kernels are priced for formats that the card has no path for, too.
    if (roof.actual > FlopRate{}) roofs.push_back(roof);
  }
  std::vector<html::RooflineDot> dots;
  for (const NodePrediction& n : s.nodes) {
    const double share = html::total_of(n) / s.latency;
    const Bytes bytes = n.op.dram_bytes();
    const std::string label = html::label_of(*n.node);
    const std::string title = label + ": " + format(n.op.time) + " x " + std::to_string(n.node->count) + ", " +
                              percent(share) + " of the step, " + format(n.op.flops / n.op.time) + ", DRAM " +
                              format(bytes / n.op.time) + ", " + std::string(name(n.op.bound)) + "-bound";
    dots.push_back({label, bytes > Bytes{} ? n.op.intensity() : Intensity{}, n.op.flops / n.op.time, share,
                    std::string(parts.css(*n.node)), title});
  }
  return html::section("Roofline", html::roofline_plot(r.machine.gpu(), s.clock, roofs, std::move(dots)));
}

std::vector<Columns::Column> operator_columns(bool power) {
  using enum Columns::Align;
  std::vector<Columns::Column> columns{{"operator"},     {"kind"},           {"count", right},   {"each", right},
                                       {"total", right}, {"of step", right}, {"bound, limiter"}, {"FLOPs", right},
                                       {"DRAM", right},  {"FLOP/B", right}};
  if (power) columns.insert(columns.end(), {{"power", right}, {"energy", right}});
  columns.push_back({"provenance"});
  return columns;
}

std::string operator_row(const NodePrediction& n, const StepPrediction& s) {
  const Seconds total = html::total_of(n);
  const bool moves_bytes = n.op.dram_bytes() > Bytes{};
  std::vector<html::Cell> cells{
      {html::label_of(*n.node), false, -1, std::string(dtype_text(n.node->op)) + " " + shape_text(n.node->op)},
      {std::string(op_name(n.node->op)), false, -1, ""},
      {std::to_string(n.node->count), true, -1, ""},
      {format(n.op.time), true, -1, format(n.op.low) + " to " + format(n.op.high)},
      {format(total), true, -1, ""},
      {percent(total / s.latency), true, total / s.latency, ""},
      {std::string(name(n.op.bound)) + ", " + std::string(name(n.op.limiter)) + " " + percent(n.op.limiter_share),
       false, -1, ""},
      {format(n.op.flops), true, -1, ""},
      {format(n.op.dram_bytes()), true, -1, ""},
      {moves_bytes ? format(n.op.intensity().in(units::FLOP_per_B)) : "-", true, -1, ""}};
  if (s.power) {
    cells.push_back({n.op.power ? format(*n.op.power) : "-", true, -1, ""});
    cells.push_back({n.op.energy ? format(static_cast<double>(n.node->count) * *n.op.energy) : "-", true, -1, ""});
  }
  cells.push_back({html::words(name(n.op.provenance)), false, -1, ""});
  return html::table_row(cells);
}

/// A row of sums: "launch gaps", and "step", which has the work as well.
std::string total_row(const std::string& label, Seconds time, const StepPrediction& s, bool step) {
  const html::Cell none;
  std::vector<html::Cell> cells{{label, false, -1, ""},
                                none,
                                none,
                                none,
                                {format(time), true, -1, ""},
                                {percent(time / s.latency), true, -1, ""},
                                none};
  cells.push_back({step ? format(s.flops) : "", true, -1, ""});
  cells.push_back({step ? format(s.dram_bytes) : "", true, -1, ""});
  cells.push_back(none);
  if (s.power) {
    cells.push_back({step ? format(*s.power) : "", true, -1, ""});
    cells.push_back({step && s.energy ? format(*s.energy) : "", true, -1, ""});
  }
  cells.push_back(none);
  return html::table_row(cells, step ? "total" : "");
}

std::string operators_section(const StepPrediction& s) {
  const auto& segments = s.graph.segments;
  const auto repeats = [](const Segment& segment) { return segment.repeat > 1; };
  const bool kinds_of_layer = std::count_if(segments.begin(), segments.end(), repeats) > 1;
  std::string rows;
  int segment = -1;
  Seconds gaps;
  for (const NodePrediction& n : s.nodes) {
    if (kinds_of_layer && n.node->segment != segment) {
      segment = n.node->segment;
      const Segment& part = segments.at(static_cast<std::size_t>(segment));
      std::vector<html::Cell> cells(operator_columns(s.power.has_value()).size());
      cells[0].text = std::string(part.name) + " x " + std::to_string(part.repeat);
      rows += html::table_row(cells, "head");
    }
    gaps += static_cast<double>(n.node->count) * n.waited_for() * n.gap;
    rows += operator_row(n, s);
  }
  if (gaps > Seconds{}) rows += total_row("launch gaps", gaps, s, false);
  rows += total_row("step", s.latency, s, true);
  return html::section("Operators",
                       html::table_of(html::table_head(operator_columns(s.power.has_value())), rows) +
                           html::note("Each, FLOPs, DRAM and power: one execution, with the gaps between launches of a "
                                      "CUDA graph. Total and energy: all of the step."),
                       true);
}

std::string explanations(const StepReport& r) {
  std::string out;
  for (const NodePrediction& n : r.step.nodes) {
    if (!explained(r, *n.node)) continue;
    out += "<h3>" +
           html::escaped(html::label_of(*n.node) + ": " + std::string(op_name(n.node->op)) + " " +
                         std::string(dtype_text(n.node->op)) + " " + shape_text(n.node->op)) +
           "</h3>\n" + html::preformatted(explain(n.node->op, n.op, r.machine) + beside_text(r.step, n, r.machine));
  }
  return out.empty() ? "" : html::section("Why", out, true);
}

/// Of a chunk of a prompt: what the cache holds before it.
std::string behind(const Workload& workload) {
  return workload.cached > 0 ? " behind " + std::to_string(workload.cached) + " cached tokens" : "";
}

std::string inputs_section(const StepReport& r) {
  const Gpu& card = r.machine.gpu();
  std::string model = parameter_count(r.llm.params) + " parameters";
  if (r.llm.active_params < 0.999 * r.llm.params)
    model += ", " + parameter_count(r.llm.active_params) + " active per token";
  const auto usual = [](bool given) { return given ? "" : " (default)"; };
  const auto published = [](bool given) { return given ? "" : " (as published)"; };
  std::vector<std::pair<std::string, std::string>> inputs{
      {"model", r.llm.name + ", " + model},
      {"layers", layers_text(layer_kinds(r.llm))},
      {"GPU", card.title + " (" + card.name + ")"},
      {"phase", std::string(word_of(kPhaseWords, r.workload.phase))},
      {"batch", std::to_string(r.workload.batch) + usual(r.given.batch)},
      {r.workload.phase == Phase::decode ? "context" : "prompt",
       std::to_string(length(r.workload)) + " tokens" + usual(r.given.length) + behind(r.workload)},
      {"weights", weight_format(r.llm, r.workload) + published(r.workload.precision_given)}};
  if (keeps_cache(r.workload)) {
    std::string cache = std::string(kv_format(r.llm, r.workload)) + published(r.workload.kv_dtype_given);
    if (const Bytes kv = kv_per_token(r.llm, r.workload); kv > Bytes{}) cache += ", " + format(kv) + " per token";
    inputs.emplace_back("KV cache", cache);
  }
  inputs.emplace_back("stack", r.machine.stack().name + usual(r.given.stack));
  inputs.emplace_back("runtime", word_of(kRuntimeWords, r.options.runtime));
  inputs.emplace_back("fusion", word_of(kFusionWords, r.workload.fusion));
  inputs.emplace_back("clock", std::string(word_of(kClockWords, r.clock)) + usual(r.given.clock));
  if (r.machine.options().power_cap) inputs.emplace_back("power cap", format(*r.machine.options().power_cap));
  std::string out;
  if (!r.advice.empty()) out += html::section("Advice", html::bullets(sentences_of(r.advice)), true);
  out += html::section("Inputs", html::facts(inputs));
  const auto sentences = all_assumptions(r.machine, r.llm.assumptions, r.remarks);
  return sentences.empty() ? out : out + html::section("Assumptions", html::bullets(sentences), true);
}

}  // namespace

std::string step_html(const StepReport& r) {
  const std::string title = r.llm.name + ", " + std::string(word_of(kPhaseWords, r.workload.phase)) + ", on " +
                            std::to_string(r.workload.parallel.ranks()) + " x " + r.machine.gpu().title;
  std::string asked =
      "batch " + std::to_string(r.workload.batch) + (r.workload.phase == Phase::decode ? ", context " : ", prompt ") +
      std::to_string(length(r.workload)) + behind(r.workload) + ", weights " + weight_format(r.llm, r.workload);
  if (keeps_cache(r.workload)) asked += ", KV cache " + std::string(kv_format(r.llm, r.workload));
  asked += ", stack " + r.machine.stack().name;
  const html::StepParts parts = html::step_parts(r.step);
  std::string body = "<h1>" + html::escaped(title) + "</h1>\n<p class=\"soft\">" + html::escaped(asked) + "</p>\n";
  if (!r.llm.warnings.empty()) body += html::section("Warnings", html::bullets(r.llm.warnings));
  body += html::fit_verdict(r.step.graph.memory, r.fit) + headline(r) + time_section(r.step, parts) +
          html::memory_section(r.step.graph.memory, r.fit) + roofline_section(r, parts);
  body += html::section("Power over time", html::power_plots(r, parts), true);
  body += operators_section(r.step) + explanations(r) + inputs_section(r);
  return html::document(title, body);
}

}  // namespace plumbline
