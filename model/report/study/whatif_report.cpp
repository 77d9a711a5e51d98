#include "model/report/study/whatif_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "arch/format.hpp"
#include "arch/printable.hpp"
#include "model/report/ops_batch_row.hpp"
#include "model/report/study/sweep_report.hpp"
#include "ops/csv.hpp"

namespace plumbline {

std::string signed_text(double value, int digits) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%+.*f", digits, value);
  std::string text = buffer;
  if (text.find_first_not_of("+-0.") == std::string::npos) text.front() = '+';  // nothing is left of what is less
  return text;
}

namespace {

constexpr auto kLeft = Columns::Align::left, kRight = Columns::Align::right;

std::string change_text(double ratio) { return signed_text(100 * (ratio - 1), 1) + " %"; }

bool has_effect(const ParameterEffect& e) {
  return e.why_not.empty() && (e.latency != 0 || e.energy != 0 || e.latency_ratio.value != 1 || e.energy_ratio != 1);
}

/// "gate_up_proj 412 us, down_proj 201 us": the first ones of what is saved.
std::string saved_text(const ParameterEffect& e, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < e.saved.size() && i < most; ++i) {
    const OperatorCost& cost = e.saved[i];
    if (cost.time_s == 0) break;
    text += (i > 0 ? ", " : "") + (cost.phase.empty() ? "" : cost.phase + " ") + cost.name + " " +
            (cost.time_s < 0 ? "-" : "") + format(std::abs(cost.time_s) * units::s);
  }
  return text;
}

std::string interactions_text(const Sensitivity& s) {
  std::string text;
  for (const ParameterInteraction& each : s.interactions) {
    std::string names;
    for (const std::string& path : each.paths) names += (names.empty() ? "" : " and ") + path;
    text += "  " + names + ", each 10 % more: " + change_text(each.together) + " together, " +
            change_text(each.product) + " each by itself and multiplied\n";
  }
  return text;
}

std::string counts_text(const SensitivityReport& r) {
  const auto effects = std::count_if(r.result.parameters.begin(), r.result.parameters.end(), has_effect);
  return std::to_string(effects) + " of " + std::to_string(r.result.parameters.size()) +
         " numbers have an effect; latency, energy and tokens/J are elasticities: what a figure changes by, in "
         "percent, for "
         "each percent of the number, between 10 % less and 10 % more";
}

std::string side_text(const Study& study) { return printable(study_line(study)); }

std::string side_figures(const DifferenceSide& s, bool of_op) {
  std::string text = format(s.latency_s * units::s) + " (" + format(s.latency_low_s * units::s) + " to " +
                     format(s.latency_high_s * units::s) + ")";
  if (!of_op) text += ", " + format(s.tokens_per_s) + " tokens/s";
  if (s.energy_J > 0) text += ", " + format(s.energy_J * units::J) + ", " + format(s.power_W * units::W);
  text += ", bound by " + s.bound;
  return s.fits ? text : text + ", DOES NOT FIT";
}

std::string limiter_text(const OperatorDifference& d) {
  if (d.before.limiter == d.after.limiter) return d.before.limiter;
  return (d.before.limiter.empty() ? "-" : d.before.limiter) + " -> " +
         (d.after.limiter.empty() ? "-" : d.after.limiter);
}

const std::string& name_of(const OperatorDifference& d) { return d.before.name.empty() ? d.after.name : d.before.name; }
const std::string& phase_of(const OperatorDifference& d) {
  return d.before.name.empty() ? d.after.phase : d.before.phase;
}

std::string signed_time(double seconds) { return (seconds < 0 ? "-" : "+") + format(std::abs(seconds) * units::s); }

std::string ratio_text(const StudyDifference& d) {
  return change_text(d.latency_ratio.value) + "  (5-95 % band " + change_text(d.latency_ratio.low) + " to " +
         change_text(d.latency_ratio.high) +
         (d.same_machine ? "; what both err by cancels)" : "; each errs by itself)");
}

std::string cross_over_text(const CrossOver& c) {
  return "from " + c.name + " " + std::to_string(c.at) + " on the " + (c.second_from ? "second" : "first") +
         " is faster";
}

/// Rows of CSV: fields by their commas.
class Fields {
 public:
  Fields& add(const std::string& text) {
    if (!first_) line_ += ',';
    first_ = false;
    append_csv_field(line_, printable(text));
    return *this;
  }
  Fields& add(double value) {
    if (!first_) line_ += ',';
    first_ = false;
    append_number(line_, value);
    return *this;
  }
  std::string line() const { return line_ + "\n"; }

 private:
  std::string line_;
  bool first_ = true;
};

}  // namespace

Columns sensitivity_columns(const SensitivityReport& r) {
  Columns table({{"number", kLeft},
                 {"as it is", kRight},
                 {"latency", kRight},
                 {"energy", kRight},
                 {"tokens/J", kRight},
                 {"10 % more: latency", kRight},
                 {"5-95 % band", kLeft},
                 {"bound", kLeft},
                 {"shorter by", kLeft}});
  std::int64_t shown = 0;
  for (const ParameterEffect& e : r.result.parameters) {
    if (!has_effect(e) || (r.top > 0 && shown == r.top)) continue;
    ++shown;
    table.add({e.path, parameter_text(e.unit, e.value), signed_text(e.latency, 3), signed_text(e.energy, 3),
               r.study.of_op ? "-" : signed_text(e.tokens_per_J, 3), change_text(e.latency_ratio.value),
               change_text(e.latency_ratio.low) + " to " + change_text(e.latency_ratio.high), e.bound,
               saved_text(e, 2)});
  }
  return table;
}

Columns diff_columns(const DiffReport& r) {
  Columns table({{"operator", kLeft},
                 {"first", kRight},
                 {"second", kRight},
                 {"change", kRight},
                 {"of the first's time", kRight},
                 {"energy", kRight},
                 {"limiter", kLeft}});
  std::int64_t shown = 0;
  for (const OperatorDifference& d : r.result.operators) {
    if (r.top > 0 && shown++ == r.top) break;
    const double change = d.after.time_s - d.before.time_s, energy = d.after.energy_J - d.before.energy_J;
    const std::string name = phase_of(d).empty() ? name_of(d) : phase_of(d) + " " + name_of(d);
    table.add({printable(name), d.before.name.empty() ? "-" : format(d.before.time_s * units::s),
               d.after.name.empty() ? "-" : format(d.after.time_s * units::s), signed_time(change),
               signed_text(100 * change / r.result.before.latency_s, 1) + " %",
               (energy < 0 ? "-" : "+") + format(std::abs(energy) * units::J), limiter_text(d)});
  }
  return table;
}

std::string parameter_text(const std::string& unit, double value) {
  if (unit.find("B/s") != std::string::npos) return format(value * units::B_per_s);
  if (unit.find("Hz") != std::string::npos) return format(value * units::Hz);
  if (unit.find("iB") != std::string::npos) return format_binary(value * units::B);
  if (unit.find("FLOP/s") != std::string::npos) return format(value * units::FLOP_per_s);
  if (unit == "W") return format(value * units::W);
  if (unit.empty() || unit == "count") return std::to_string(std::llround(value));
  if (unit.find("ns") != std::string::npos) return format(value * units::s);
  return format(value);
}

std::string sensitivity_table(const SensitivityReport& r, const TextStyle& style) {
  const Sensitivity& s = r.result;
  std::string out =
      fitted(side_text(r.study)) + labelled("latency", format(s.latency_s * units::s) + ", bound by " + s.bound);
  if (s.energy_J > 0) out += labelled("energy", format(s.energy_J * units::J));
  out += "\n" + sensitivity_columns(r).text(2, style) + "\n";
  const std::string together = interactions_text(s);
  if (!together.empty()) out += style.bold("together") + "\n" + together + "\n";
  return out + fitted(counts_text(r));
}

std::string sensitivity_csv(const SensitivityReport& r) {
  std::string out =
      "parameter,unit,value,changed_value,latency_elasticity,energy_elasticity,tokens_per_s_elasticity,"
      "tokens_per_J_elasticity,latency_ratio,latency_ratio_low,latency_ratio_high,energy_ratio,bound,limiter,error\n";
  for (const ParameterEffect& e : r.result.parameters) {
    Fields row;
    row.add(e.path).add(e.unit);
    if (e.why_not.empty()) {
      row.add(e.value).add(e.changed).add(e.latency).add(e.energy).add(e.tokens_per_s).add(e.tokens_per_J);
      row.add(e.latency_ratio.value).add(e.latency_ratio.low).add(e.latency_ratio.high).add(e.energy_ratio);
      row.add(e.bound).add(e.limiter);
    } else {
      for (int i = 0; i < 12; ++i) row.add(std::string());
    }
    out += row.add(e.why_not).line();
  }
  return out;
}

std::string solve_table(const SolveReport& r, const TextStyle& style) {
  const Solution& s = r.result;
  const std::string name = r.question.name.starts_with("set.") ? r.question.name.substr(4) : r.question.name;
  std::string targets;
  for (const std::string& each : r.question.targets) targets += (targets.empty() ? "" : ", ") + each;
  std::string out = fitted(side_text(r.study)) + labelled("targets", printable(targets));
  const std::string value = parameter_text(s.unit, s.value);
  if (s.found) {
    std::string text = std::string(r.question.largest ? "largest " : "least ") + name + ": " + style.bold(value);
    if (s.present > 0) text += " (" + parameter_text(s.unit, s.present) + " as it is)";
    out += labelled("answer", text);
  } else {
    out += labelled("answer",
                    style.bad("none") + ": no " + name + " meets " + printable(s.unmet) + "; nearest is " + value);
  }
  std::string reached;
  for (const auto& [column, figure] : s.reached) {
    reached += (reached.empty() ? "" : ", ") + column + " " + figure_text(column, figure);
  }
  out += labelled("there", reached + (s.fits ? "" : ", does not fit"));
  return out + labelled("then", "bound by " + s.bound + "; longest is " + s.longest +
                                    (s.limiter.empty() ? "" : ", limited by " + s.limiter));
}

std::string diff_table(const DiffReport& r, const TextStyle& style) {
  const StudyDifference& d = r.result;
  std::string out = labelled("first", side_text(r.before)) + labelled("second", side_text(r.after)) + "\n" +
                    labelled("first", side_figures(d.before, r.before.of_op)) +
                    labelled("second", side_figures(d.after, r.after.of_op)) + labelled("latency", ratio_text(d));
  if (d.before.energy_J > 0) out += labelled("energy", change_text(d.after.energy_J / d.before.energy_J));
  for (const CrossOver& each : d.cross_overs) out += labelled("overtakes", cross_over_text(each));
  return out + "\n" + diff_columns(r).text(2, style);
}

std::string diff_csv(const DiffReport& r) {
  std::string out = "phase,operator,first_s,second_s,change_s,first_J,second_J,change_J,first_limiter,second_limiter\n";
  for (const OperatorDifference& d : r.result.operators) {
    Fields row;
    row.add(phase_of(d)).add(name_of(d)).add(d.before.time_s).add(d.after.time_s).add(d.after.time_s - d.before.time_s);
    row.add(d.before.energy_J).add(d.after.energy_J).add(d.after.energy_J - d.before.energy_J);
    out += row.add(d.before.limiter).add(d.after.limiter).line();
  }
  return out;
}

}  // namespace plumbline
