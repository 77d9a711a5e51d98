#include "validate/step/step_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "model/stacks/stack.hpp"
#include "model/words.hpp"
#include "ops/plan/kernel_counts.hpp"
#include "validate/compare/pricing.hpp"
#include "validate/printed.hpp"
#include "validate/record/measurement.hpp"
#include "validate/statistics.hpp"
#include "validate/step/burst_clock.hpp"

namespace plumbline {
namespace {

StepRow price_row(const StepMeasurement& measured, const Machine& machine) {
  StepRow row;
  row.measured = measured;
  const StepPrediction step = predict(step_llm(measured.what), measured.what.workload, machine, RunOptions{});
  row.predicted = step.latency;
  row.low = step.low;
  row.high = step.high;
  // recordings have the energy of one GPU, as its counter says it
  if (step.energy) row.energy = *step.energy / static_cast<double>(step.graph.ranks);
  row.power = step.power;
  row.clock = step.clock;
  for (const MeasuredStepOp& op : measured.ops) {
    const auto node = std::find_if(step.nodes.begin(), step.nodes.end(),
                                   [&](const NodePrediction& n) { return op.name == step_node_name(*n.node); });
    if (node == step.nodes.end()) throw BadInput("operator '" + op.name + "' is not in the step's graph");
    row.ops.push_back({op.name, op.op, op.count, op.time, node->op.time + node->gap});
  }
  return row;
}

/// A step of a burst, priced at the boost clock, at the clock that the regulator has set by then; `settled`: the same step
/// in a long run. It acts sooner or later from burst to burst, so that the band reaches over all of the way that may be gone.
void hold_down(StepRow& row, const StepRow& settled, const RegulatorDelay& delay) {
  if (settled.predicted <= row.predicted) return;
  const double way = way_of_burst(delay, row.predicted);
  const auto between = [way](auto from, auto to) { return from * std::pow(to / from, way); };
  for (std::size_t i = 0; i < row.ops.size(); ++i) {
    row.ops[i].predicted = between(row.ops[i].predicted, settled.ops[i].predicted);
  }
  row.low = way < 1 ? row.low : settled.low;
  row.high = way > 0 ? settled.high : row.high;
  row.clock = between(row.clock, settled.clock);
  row.predicted = between(row.predicted, settled.predicted);
}

std::string signed_percent(std::optional<double> ln) { return ln ? printed("%+.1f", 100 * *ln) : ""; }

std::string padded(const std::string& text, int width) {
  const auto wide = static_cast<std::size_t>(std::abs(width));
  if (text.size() >= wide) return text;
  const std::string space(wide - text.size(), ' ');
  return width < 0 ? text + space : space + text;
}

/// Cells of a table; the first column to the left, others to the right.
class Table {
 public:
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()));
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string out;
    for (const auto& row : rows_) {
      std::string line = "  ";
      for (std::size_t i = 0; i < row.size(); ++i) {
        const int width = static_cast<int>(widths[i]);
        line += padded(row[i], i == 0 ? -width : width) + "  ";
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string class_of(const StepRow& row) {
  return std::string(word_of(kPhaseWords, row.measured.what.workload.phase)) + " " +
         std::string(text_of(row.measured.what.clock)) + ", " + row.measured.what.study;
}

/// Median and worst |error| of the steps of a class, time and energy.
std::string class_table(const std::vector<StepRow>& rows) {
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> classes;
  for (const StepRow& row : rows) {
    if (!row.good()) continue;
    auto& [time, energy] = classes[class_of(row)];
    time.push_back(row.time_error());
    if (const auto e = row.energy_error()) energy.push_back(*e);
  }
  Table table;
  table.add({"class", "steps", "time: median %", "worst %", "bias %", "energy: median %", "worst %", "bias %"});
  for (const auto& [key, errors] : classes) {
    std::vector<std::string> cells{key, std::to_string(errors.first.size())};
    for (const auto* list : {&errors.first, &errors.second}) {
      if (list->empty()) continue;
      std::vector<double> absolute;
      for (const double e : *list) absolute.push_back(std::abs(e));
      cells.push_back(percent_number(median(absolute)));
      cells.push_back(percent_number(*std::max_element(absolute.begin(), absolute.end())));
      cells.push_back(signed_percent(mean(*list)));
    }
    table.add(cells);
  }
  return table.text();
}

/// What each operator takes of all traced steps of a phase, and by how much it is predicted too long.
std::string op_table(const std::vector<StepRow>& rows) {
  struct Sum {
    Seconds measured, predicted;
    std::vector<double> errors;
  };
  std::map<std::string, std::vector<std::pair<std::string, Sum>>> phases;
  std::map<std::string, Seconds> totals;
  for (const StepRow& row : rows) {
    for (const StepOpRow& op : row.ops) {
      const std::string phase = std::string(word_of(kPhaseWords, row.measured.what.workload.phase)) + " " +
                                std::string(text_of(row.measured.what.clock));
      auto& sums = phases[phase];
      auto at = std::find_if(sums.begin(), sums.end(), [&](const auto& s) { return s.first == op.name; });
      if (at == sums.end()) at = sums.insert(sums.end(), {op.name, {}});
      const auto count = static_cast<double>(op.count);
      at->second.measured += count * op.measured;
      at->second.predicted += count * op.predicted;
      at->second.errors.push_back(std::abs(std::log(op.predicted / op.measured)));
      totals[phase] += count * op.measured;
    }
  }
  std::string text;
  for (auto& [phase, sums] : phases) {
    Table table;
    table.add({phase, "of the time %", "predicted / measured %", "median error %", "moves the steps %"});
    for (auto& [name, sum] : sums) {
      table.add({name, percent_number(sum.measured / totals[phase]),
                 signed_percent(std::log(sum.predicted / sum.measured)), percent_number(median(sum.errors)),
                 signed_percent((sum.predicted - sum.measured) / totals[phase])});
    }
    text += "\n" + table.text();
  }
  return text;
}

std::string joined(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) (line += line.empty() ? "" : ",") += cell;
  return line + "\n";
}

/// `machine_at` gives the card's machine of a clock mode.
template <class MachineAt>
WholeStepReport compare(const StepRecording& recording, const std::string& gpu, const Calibration& calibration,
                        const MachineAt& machine_at) {
  const std::optional<RegulatorDelay> delay = regulator_delay(calibration);
  WholeStepReport report;
  report.session = recording.session;
  report.gpu = gpu;
  for (const StepMeasurement& step : recording.steps) {
    StepRow row;
    row.measured = step;
    if (!step.fault.empty()) {
      row.error = step.fault;
    } else {
      try {
        row = price_row(step, machine_at(step.what.clock));
        if (delay && step.what.clock == ClockMode::burst) {
          hold_down(row, price_row(step, machine_at(ClockMode::steady)), *delay);
        }
      } catch (const NotModelled& refusal) {
        row.error = refusal.what();
      }
    }
    report.rows.push_back(std::move(row));
  }
  return report;
}

std::string exact(double value) { return format_exact(value); }

}  // namespace

double StepRow::time_error() const { return std::log(predicted / measured.time); }
std::optional<double> StepRow::energy_error() const {
  if (!energy || !measured.energy) return {};
  return std::log(*energy / *measured.energy);
}
std::optional<double> StepRow::power_error() const {
  if (!power || !measured.conditions.power) return {};
  return std::log(*power / *measured.conditions.power);
}
std::optional<double> StepRow::clock_error() const {
  if (!measured.conditions.sm_clock) return {};
  return std::log(clock / *measured.conditions.sm_clock);
}

WholeStepReport compare_steps(const StepRecording& recording, const MachineKey& card) {
  MachineKey key = card;
  key.options.stack = "own";  // steps run our kernels
  const Gpu& gpu = machines().gpu(card.gpu);
  const Calibration calibration = calibration_for(gpu, card.calibration_file);
  return compare(recording, gpu.name, calibration, [&key](ClockMode clock) {
    key.options.clock = clock;
    return machines().get(key);
  });
}

WholeStepReport compare_steps(const StepRecording& recording, const Gpu& gpu, const Calibration& calibration) {
  std::map<ClockMode, Machine> made;
  return compare(recording, gpu.name, calibration, [&](ClockMode clock) {
    const auto known = made.find(clock);
    if (known != made.end()) return known->second;
    MachineOptions options;
    options.stack = "own";  // steps run our kernels
    options.clock = clock;
    const Stack& stack = machines().stack(options.stack.name);
    const MachineAids aids{{}, load_kernel_counts("own_sm90"), {}, machines().cluster(gpu, "")};
    return made.emplace(clock, assemble_machine(gpu, calibration, stack, options, aids)).first->second;
  });
}

std::string step_table(const WholeStepReport& report) {
  Table table;
  table.add({"step", "measured", "predicted", "error %", "in band", "energy", "predicted", "error %", "power",
             "predicted", "SM clock", "predicted"});
  std::string faults;
  for (const StepRow& row : report.rows) {
    const StepMeasurement& m = row.measured;
    if (!row.good()) {
      faults += "  " + step_text(m.what) + ": " + row.error + "\n";
      continue;
    }
    const bool inside = row.low <= m.time && m.time <= row.high;
    std::vector<std::string> cells{step_text(m.what), format(m.time), format(row.predicted),
                                   signed_percent(row.time_error()), inside ? "yes" : "no"};
    const bool steady = m.energy && row.energy && m.conditions.power && row.power;
    cells.push_back(steady ? format(*m.energy) : "");
    cells.push_back(steady ? format(*row.energy) : "");
    cells.push_back(signed_percent(row.energy_error()));
    cells.push_back(steady ? format(*m.conditions.power) : "");
    cells.push_back(steady ? format(*row.power) : "");
    cells.push_back(m.conditions.sm_clock ? format(*m.conditions.sm_clock) : "");
    cells.push_back(m.conditions.sm_clock ? format(row.clock) : "");
    table.add(cells);
  }
  std::string text = report.session.card + ", whole steps of our own kernels in one CUDA graph, " +
                     report.session.date + "\n\n" + table.text() + "\n" + class_table(report.rows) +
                     op_table(report.rows);
  if (!faults.empty()) text += "\nnot measured or modelled\n" + faults;
  return text;
}

std::string step_csv(const WholeStepReport& report) {
  std::string text =
      "step,clock,study,operator,count,measured_us,predicted_us,low_us,high_us,traced_us,measured_J,predicted_J,"
      "measured_W,predicted_W,measured_MHz,predicted_MHz\n";
  for (const StepRow& row : report.rows) {
    if (!row.good()) continue;
    const StepMeasurement& m = row.measured;
    StepCase what = m.what;
    std::string step = step_text(what);
    step = step.substr(0, step.find(','));
    const auto us = [](Seconds t) { return exact(t.in(units::us)); };
    const auto maybe = [](const auto& value, auto unit) { return value ? exact(value->in(unit)) : std::string(); };
    const std::string clock(text_of(what.clock));
    text += joined({step, clock, what.study, "", "1", us(m.time), us(row.predicted), us(row.low), us(row.high),
                    maybe(m.traced, units::us), maybe(m.energy, units::J), maybe(row.energy, units::J),
                    maybe(m.conditions.power, units::W), maybe(row.power, units::W),
                    maybe(m.conditions.sm_clock, units::MHz), exact(row.clock.in(units::MHz))});
    for (const StepOpRow& op : row.ops) {
      text += joined({step, clock, what.study, op.name, std::to_string(op.count), us(op.measured), us(op.predicted), "",
                      "", "", "", "", "", "", "", ""});
    }
  }
  return text;
}

}  // namespace plumbline
