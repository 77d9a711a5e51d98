// A step of a model as a table for people, 120 columns at most.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

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
    case Phase::decode: return "one decode step: one token per sequence";
    case Phase::train: return "one training iteration";
  }
  return "one step";
}

std::string header(const StepReport& r, const TextStyle& style) {
  const Gpu& card = r.machine.gpu();
  std::string first = r.llm.name + ", " + std::string(word_of(kPhaseWords, r.workload.phase)) + ", on " +
                      std::to_string(r.workload.parallel.ranks()) + " x " + card.title;
  if (card.title != card.name) first += " (" + card.name + ")";
  const Workload& w = r.workload;
  std::string lengths = "batch " + std::to_string(w.batch) + (r.given.batch ? "" : " (default)") +
                        (w.phase == Phase::decode ? ", context " : ", prompt ") + std::to_string(length(w)) +
                        (r.given.length ? "" : " (default)");
  if (w.cached > 0) lengths += " behind " + std::to_string(w.cached) + " cached tokens";
  return style.bold(first) + "\n" + question_lines(r, lengths) + "\n";
}

std::string summary(const StepReport& r, const TextStyle& style) {
  const StepPrediction& s = r.step;
  std::string out = memory_lines(s.graph.memory, r.fit, style) + stages_memory_line(r) + load_line(r.load);
  std::string time = style.bold(format(s.latency)) + "  (5-95 % band " + format(s.low) + " to " + format(s.high) +
                     ")  " + std::string(step_noun(r.workload.phase));
  out += labelled("latency", time);
  std::string rate = format(s.tokens_per_s) + " tokens/s";
  if (r.workload.phase == Phase::decode && r.workload.batch > 1) {
    rate += ", " + format(s.tokens_per_s / static_cast<double>(r.workload.batch)) + " per sequence";
  }
  if (!r.fit.fits) rate += ", were there room for it";
  out += labelled("throughput", rate);
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
  out += training_lines(r) + parallel_lines(r);
  if (s.power_limited) {
    out += labelled("limit", "power: " + format(s.clock) + " of " + format(r.machine.gpu().boost_clock) +
                                 "; uncapped " + format(s.uncapped));
  }
  const Mfu mfu = mfu_of(s, r.machine.gpu());
  std::string of_peak = "MFU " + percent(mfu.value);
  if (mfu.value > 0) {
    of_peak += " of " + format(mfu.peak) + " (" + std::string(name(mfu.math)) + " dense, " +
               (mfu.datasheet ? "datasheet" : "boost clock") + ")";
  }
  out += labelled("utilisation", of_peak + ", MBU " + percent(s.mbu));
  out += labelled("work", format(s.flops) + ", DRAM traffic " + format(s.dram_bytes));
  const std::string watts =
      s.power ? format(*s.power) + " mean (band " + format(*s.power_low) + " to " + format(*s.power_high) + "), " : "";
  if (s.energy && s.graph.tokens > 0) {
    const Joules token = *s.energy / s.graph.tokens;
    out += labelled("power", watts + format(*s.energy) + " per step, " + format(token) + " per token (" +
                                 format(1.0 * units::J / token) + " tokens/J)");
  } else if (s.energy) {
    out += labelled("power", watts + format(*s.energy) + " per step");
  }
  return out + "\n";
}

std::string bound_words(const OpPrediction& op) {
  return std::string(name(op.bound)) + ", " + std::string(name(op.limiter)) + " " + percent(op.limiter_share);
}

/// Executions of one operator, under one name, in all kinds of layers that have it.
struct FoldedRow {
  const NodePrediction* node = nullptr;
  std::vector<int> segments;
  std::int64_t count = 0;
  Seconds total;  ///< what the step waits for them
};

/// Layers of different kinds share operators: a row each, in the order of their first appearance.
std::vector<FoldedRow> folded(const StepPrediction& step) {
  std::vector<FoldedRow> rows;
  for (const NodePrediction& n : step.nodes) {
    const auto same = [&](const FoldedRow& row) {
      return row.node->first == n.first && row.node->node->pass == n.node->pass &&
             std::string_view(row.node->node->name) == n.node->name;
    };
    auto row = std::find_if(rows.begin(), rows.end(), same);
    if (row == rows.end()) row = rows.insert(rows.end(), FoldedRow{&n, {}, 0, {}});
    if (row->segments.empty() || row->segments.back() != n.node->segment) row->segments.push_back(n.node->segment);
    row->count += n.node->count;
    row->total += static_cast<double>(n.node->count) * n.waited_for() * (kernel_time(n.op) + n.tax);
  }
  return rows;
}

/// "layer x 3, moe_layer x 58:"
std::string layers_text(const StepPrediction& step, const std::vector<int>& segments) {
  std::string text;
  for (const int i : segments) {
    const Segment& s = step.graph.segments.at(static_cast<std::size_t>(i));
    text += (text.empty() ? "" : ", ") + std::string(s.name);
    if (s.repeat > 1) text += " x " + std::to_string(s.repeat);
  }
  return text + ":";
}

void add_row(Columns& table, const FoldedRow& row, Seconds latency) {
  const NodePrediction& n = *row.node;
  std::string label = n.node->name;
  if (n.node->pass == Pass::backward) label += " (bwd)";
  const bool moves_bytes = n.op.dram_bytes() > 0.0 * units::B;
  table.add({label, std::string(op_name(n.node->op)), std::to_string(row.count), format(kernel_time(n.op)),
             format(row.total), percent(row.total / latency), bound_words(n.op), format(n.op.flops),
             format(n.op.dram_bytes()), moves_bytes ? format(n.op.intensity().in(units::FLOP_per_B)) : "-"});
}

/// The `top` rows that take longest, in the order of the step; the others' time in one row. 0: all rows.
Seconds keep_longest(std::vector<FoldedRow>& rows, std::int64_t top) {
  if (top == 0 || static_cast<std::size_t>(top) >= rows.size()) return Seconds{};
  std::vector<Seconds> times;
  for (const FoldedRow& row : rows) times.push_back(row.total);
  std::sort(times.begin(), times.end(), std::greater<>());
  const Seconds least = times[static_cast<std::size_t>(top) - 1];
  std::int64_t left = top;
  Seconds others;
  std::erase_if(rows, [&](const FoldedRow& row) {
    if (row.total >= least && left-- > 0) return false;
    others += row.total;
    return true;
  });
  return others;
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
  std::vector<FoldedRow> rows = folded(r.step);
  const std::size_t all = rows.size();
  Seconds gaps = r.step.latency - r.step.bubble;
  for (const FoldedRow& row : rows) gaps -= row.total;
  const Seconds others = keep_longest(rows, r.top);
  std::vector<int> within;
  for (const FoldedRow& row : rows) {
    if (kinds_of_layer && row.segments != within) table.add({layers_text(r.step, row.segments)});
    within = row.segments;
    add_row(table, row, r.step.latency);
  }
  table.add_rule();
  if (rows.size() < all) {
    table.add(
        {std::to_string(all - rows.size()) + " others", "", "", "", format(others), percent(others / r.step.latency)});
  }
  if (gaps > 1e-9 * r.step.latency) {
    table.add({"launch gaps", "", "", "", format(gaps), percent(gaps / r.step.latency)});
  }
  if (r.step.bubble > Seconds{}) {
    table.add({"waits for stages", "", "", "", format(r.step.bubble), percent(r.step.bubble / r.step.latency)});
  }
  table.add({"step", "", "", "", format(r.step.latency), "100 %", "", format(r.step.flops), format(r.step.dram_bytes)});
  std::string notes =
      "  each, FLOPs and DRAM: one execution, as a profiler shows it; launch gaps: all time between kernels\n";
  if (r.step.network_hidden > Seconds{}) {
    notes += "  each: by itself; total: with what it is longer beside others, without what they hide of it\n";
  }
  return table.text(2, style) + notes;
}

std::string explanations(const StepReport& r, const TextStyle& style) {
  std::string out;
  for (const NodePrediction& n : r.step.nodes) {
    if (!explained(r, *n.node)) continue;
    out += "\n" +
           style.bold(std::string(n.node->name) + ": " + std::string(op_name(n.node->op)) + " " +
                      std::string(dtype_text(n.node->op)) + " " + shape_text(n.node->op) + ", " +
                      std::to_string(n.node->count) + " per step") +
           "\n" + fitted(explain(n.node->op, n.op, r.machine) + beside_text(r.step, n, r.machine));
  }
  return out;
}

}  // namespace

std::string step_table(const StepReport& report, const TextStyle& style) {
  std::string out = header(report, style) + summary(report, style) + operators(report, style);
  out += explanations(report, style);
  out += "\n" + advice_lines(report.advice, style);
  const auto sentences = all_assumptions(report.machine, report.llm.assumptions, report.remarks);
  return out + bullets("assumptions", sentences, style);
}

}  // namespace plumbline
