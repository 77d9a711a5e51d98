// Sensitivities, solutions and differences as pages, and their plots alone: tornado, curves of what was tried, waterfall.
#include <algorithm>
#include <cmath>
#include <limits>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "arch/printable.hpp"
#include "model/report/html/bar_rows.hpp"
#include "model/report/html/markup.hpp"
#include "model/report/html/script.hpp"
#include "model/report/study/study_inputs.hpp"
#include "model/report/study/sweep_report.hpp"
#include "model/report/study/whatif_report.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostBars = 300, kMostRows = 3000;
constexpr double kLeastElasticity = 0.005, kLeastGain = 5e-4;  // what is less would be written as 0

std::string percent_text(double ratio) { return (ratio >= 1 ? "+" : "-") + percent(std::abs(ratio - 1)); }

std::string signed_seconds(double seconds) { return (seconds < 0 ? "-" : "+") + format(std::abs(seconds) * units::s); }

std::string elasticity_text(double value) { return signed_text(value, 2); }

std::string first_lines(const std::string& heading, const std::vector<std::string>& lines) {
  std::string out = "<h1>" + heading + "</h1>\n";
  for (const std::string& line : lines) out += "<p class=\"soft\">" + html::escaped(line) + "</p>\n";
  return out;
}

/// A plot as it stands on the page, its height, and what stands below it.
struct Drawing {
  std::string markup, words;
  double height = 0, left = 0;
};

constexpr double kCurveLeft = 56, kRowsLeft = 12;

// --- sensitivity ---------------------------------------------------------------------------------------------------

Drawing tornado(const SensitivityReport& r) {
  std::vector<html::BarRow> rows;
  double most = 0;
  for (const ParameterEffect& e : r.result.parameters) {
    const bool little = std::abs(e.latency) < kLeastElasticity && std::abs(e.energy) < kLeastElasticity;
    if (!e.why_not.empty() || little || rows.size() == kMostBars) continue;
    const std::string both = elasticity_text(e.latency) + " / " + elasticity_text(e.energy);
    std::string hint = parameter_text(e.unit, e.value) + "; elasticity of latency " + elasticity_text(e.latency) +
                       ", of energy " + elasticity_text(e.energy);
    if (!r.study.of_op) hint += ", of tokens/J " + elasticity_text(e.tokens_per_J);
    hint += "; 10 % more: latency " + percent_text(e.latency_ratio.value) + ", then bound by " + e.bound;
    rows.push_back({e.path, both, hint, {{0, e.latency, "c0"}, {0, e.energy, "c1"}}});
    most = std::max({most, std::abs(e.latency), std::abs(e.energy)});
  }
  if (rows.empty()) return {};
  return {
      html::bar_rows(rows, {-most, most, false}, 0, "tornado"),
      "What latency (blue, first number) and energy (orange, second) change by, in percent, for each percent of the "
      "number. Left: less of it. Numbers below 0.005 are left out.",
      html::bar_rows_height(rows), kRowsLeft};
}

/// What 10 % more of each number buys: of each operator, in each phase.
std::string gains_table(const Sensitivity& s, bool of_op) {
  constexpr auto kRight = Columns::Align::right;
  Columns table({{"number"},
                 {of_op ? "operator" : "phase and operator"},
                 {"shorter by", kRight},
                 {"of all time", kRight},
                 {"less energy", kRight}});
  std::size_t rows = 0;
  for (const ParameterEffect& e : s.parameters) {
    for (const OperatorCost& cost : e.saved) {
      if (std::abs(cost.time_s) < kLeastGain * s.latency_s && std::abs(cost.energy_J) < kLeastGain * s.energy_J)
        continue;
      if (++rows > kMostRows) break;
      table.add({e.path, printable(cost.phase.empty() ? cost.name : cost.phase + " " + cost.name),
                 signed_seconds(cost.time_s).substr(cost.time_s < 0 ? 0 : 1), percent(cost.time_s / s.latency_s),
                 (cost.energy_J < 0 ? "-" : "") + format(std::abs(cost.energy_J) * units::J)});
    }
  }
  std::string out = html::sorting_table(table) + html::note("Operators that gain less than 0.05 % are left out.");
  if (rows > kMostRows) out += html::note("The first " + std::to_string(kMostRows) + " rows: --format json has all.");
  return out;
}

std::string interactions_table(const Sensitivity& s) {
  constexpr auto kRight = Columns::Align::right;
  Columns table({{"each 10 % more"}, {"latency, together", kRight}, {"each by itself, multiplied", kRight}});
  for (const ParameterInteraction& each : s.interactions) {
    std::string names;
    for (const std::string& path : each.paths) names += (names.empty() ? "" : ", ") + path;
    table.add({names, percent_text(each.together), percent_text(each.product)});
  }
  return html::table(table);
}

// --- solve ---------------------------------------------------------------------------------------------------------

std::string sought_name(const SolveReport& r) {
  return r.question.name.starts_with("set.") ? r.question.name.substr(4) : r.question.name;
}

/// What a target's figure was at every value that was tried.
Drawing curve(const SolveReport& r, std::size_t target) {
  constexpr double kHeight = 300, kRadius = 4;
  const auto& [column, reached] = r.result.reached[target];
  const std::optional<double> limit = r.result.limits[target];
  double least_x = std::numeric_limits<double>::max(), most_x = 0, least_y = least_x, most_y = 0;
  const auto widen = [](double value, double& least, double& most) {
    least = std::min(least, value);
    most = std::max(most, value);
  };
  for (const SolveTrial& trial : r.result.tried) {
    if (!(trial.figures[target] > 0)) continue;
    widen(trial.value, least_x, most_x);
    widen(trial.figures[target], least_y, most_y);
  }
  if (most_x == 0) return {};
  if (limit && *limit > 0) widen(*limit, least_y, most_y);
  html::Plot plot(html::close_log_axis(least_x, most_x), html::close_log_axis(least_y, most_y), kHeight, column);
  plot.axes(sought_name(r), column);
  if (limit && *limit > 0) {
    plot.line(plot.x().from, *limit, plot.x().to, *limit, "limit", r.question.targets[target]);
  }
  for (const SolveTrial& trial : r.result.tried) {
    const double figure = trial.figures[target];
    if (!(figure > 0)) continue;
    plot.dot(trial.value, figure, kRadius, trial.met ? "c2" : "c3",
             sought_name(r) + " " + parameter_text(r.result.unit, trial.value) + ": " + column + " " +
                 figure_text(column, figure) + (trial.fits ? "" : ", does not fit"));
  }
  return {plot.svg(),
          "A dot is a value that was tried: green where all targets are met. The line is " +
              r.question.targets[target] + ".",
          kHeight, kCurveLeft};
}

// --- diff ----------------------------------------------------------------------------------------------------------

/// From the first side's time to the second's, an operator after the other; what no operator has is the last step.
Drawing waterfall(const DiffReport& r) {
  const StudyDifference& d = r.result;
  std::vector<html::BarRow> rows;
  double at = d.before.latency_s, least = std::min(at, d.after.latency_s), most = std::max(at, d.after.latency_s);
  const auto step = [&](const std::string& name, double change, const std::string& hint) {
    rows.push_back({name, signed_seconds(change), hint, {{at, at + change, change < 0 ? "c2" : "c3"}}});
    at += change;
    least = std::min(least, at);
    most = std::max(most, at);
  };
  rows.push_back({"first", format(at * units::s), study_line(r.before), {}});
  for (const OperatorDifference& o : d.operators) {
    const double change = o.after.time_s - o.before.time_s;
    if (change == 0 || rows.size() > kMostBars) continue;
    const OperatorCost& named = o.before.name.empty() ? o.after : o.before;
    step(named.phase.empty() ? named.name : named.phase + " " + named.name, change,
         format(o.before.time_s * units::s) + " to " + format(o.after.time_s * units::s) + ", limiter " +
             (o.before.limiter.empty() ? "-" : o.before.limiter) + " to " +
             (o.after.limiter.empty() ? "-" : o.after.limiter));
  }
  constexpr double kNothing = 1e-6;
  if (const double rest = d.after.latency_s - at; std::abs(rest) > kNothing * most) {
    step("all else", rest, "what runs beside other operators, the host, and operators that are left out here");
  }
  rows.push_back({"second", format(d.after.latency_s * units::s), study_line(r.after), {}});
  // Changes are seen: the axis begins where they do.
  const double room = 0.1 * (most - least), from = std::max(0.0, least - std::max(room, 0.02 * most));
  rows.front().bars.push_back({from, d.before.latency_s, "c0"});
  rows.back().bars.push_back({from, d.after.latency_s, "c0"});
  return {html::bar_rows(rows, {from, most + room, false}, d.before.latency_s, "waterfall"),
          "From the first side's time to the second's: green is time won, red time lost. Bars begin at " +
              format(from * units::s) + "; the line is the first side's time.",
          html::bar_rows_height(rows), kRowsLeft};
}

std::string cross_overs(const StudyDifference& d) {
  std::vector<std::string> lines;
  for (const CrossOver& c : d.cross_overs) {
    lines.push_back("From " + c.name + " " + std::to_string(c.at) + " on the " + (c.second_from ? "second" : "first") +
                    " is faster.");
  }
  return lines.empty() ? "" : html::section("Where one overtakes the other", html::bullets(lines));
}

std::string alone(const Drawing& drawing, const std::string& title) {
  if (drawing.markup.empty()) throw BadInput("--format svg: there is nothing to draw");
  return html::standalone_svg(drawing.markup, drawing.height, drawing.left, title);
}

std::string drawn(const std::string& heading, const Drawing& drawing) {
  return drawing.markup.empty() ? "" : html::section(heading, drawing.markup + html::note(drawing.words), true);
}

}  // namespace

std::string sensitivity_html(const SensitivityReport& r) {
  const SensitivityReport all{r.study, r.result, 0};
  std::string body = first_lines("Sensitivity", {study_line(r.study)});
  body += html::tiles({{"latency", format(r.result.latency_s * units::s), "bound by " + r.result.bound},
                       {"energy", format(r.result.energy_J * units::J), ""}});
  body += drawn("What each number does", tornado(r));
  body += html::section("All numbers that matter", html::worded(html::sorting_table(sensitivity_columns(all))), true);
  if (!r.result.interactions.empty()) body += html::section("Together", interactions_table(r.result));
  body += html::section("What 10 % more buys, by operator", gains_table(r.result, r.study.of_op), true);
  body += html::section("Inputs", inputs_markup({&r.study}), true);
  return html::document("Sensitivity: " + study_line(r.study), body, html::kTableScript);
}

std::string sensitivity_svg(const SensitivityReport& r) { return alone(tornado(r), study_line(r.study)); }

std::string solve_html(const SolveReport& r) {
  const Solution& s = r.result;
  const std::string name = sought_name(r), value = parameter_text(s.unit, s.value);
  std::string body = first_lines("Solve", {study_line(r.study)});
  std::string verdict = std::string(r.question.largest ? "largest " : "least ") + name + " that meets the targets";
  if (!s.found) verdict = "no " + name + " meets " + s.unmet + "; nearest is " + value;
  body += "<p class=\"verdict " + std::string(s.found ? "good" : "bad") + "\"><b>" +
          html::escaped(s.found ? value : "none") + "</b>" + html::escaped(verdict) + "</p>\n";
  std::vector<html::Tile> tiles;
  for (std::size_t i = 0; i < s.reached.size(); ++i) {
    tiles.push_back({s.reached[i].first, figure_text(s.reached[i].first, s.reached[i].second), r.question.targets[i]});
  }
  if (s.present > 0) tiles.push_back({name + " as it is", parameter_text(s.unit, s.present), ""});
  body += html::tiles(tiles);
  body += html::section("What remains", html::facts({{"bound by", s.bound},
                                                     {"longest operator", s.longest},
                                                     {"limited by", s.limiter.empty() ? "-" : s.limiter},
                                                     {"fits", s.fits ? "yes" : "no"}}));
  for (std::size_t i = 0; i < s.reached.size(); ++i) body += drawn(s.reached[i].first + " by " + name, curve(r, i));
  std::vector<Columns::Column> heads{{name, Columns::Align::right}};
  for (const auto& [column, figure] : s.reached) heads.push_back({column, Columns::Align::right});
  heads.push_back({"targets met"});
  Columns table(std::move(heads));
  for (const SolveTrial& trial : s.tried) {
    std::vector<std::string> cells{parameter_text(s.unit, trial.value)};
    for (std::size_t i = 0; i < trial.figures.size(); ++i) {
      cells.push_back(figure_text(s.reached[i].first, trial.figures[i]));
    }
    cells.emplace_back(trial.met ? "yes" : trial.fits ? "no" : "no, does not fit");
    if (!table.rows().empty() && table.rows().back() == cells) continue;  // halvings that look alike
    table.add(std::move(cells));
  }
  body += html::section("Values that were tried", html::sorting_table(table), true);
  body += html::section("Inputs", inputs_markup({&r.study}), true);
  return html::document("Solve: " + study_line(r.study), body, html::kTableScript);
}

std::string solve_svg(const SolveReport& r) { return alone(curve(r, 0), study_line(r.study)); }

std::string diff_html(const DiffReport& r) {
  const DiffReport all{r.before, r.after, r.result, 0};
  std::string body = first_lines("Difference", {study_line(r.before), "against " + study_line(r.after)});
  const BandedRatio& ratio = r.result.latency_ratio;
  body += html::tiles({{"first", format(r.result.before.latency_s * units::s), "bound by " + r.result.before.bound},
                       {"second", format(r.result.after.latency_s * units::s), "bound by " + r.result.after.bound},
                       {"latency", percent_text(ratio.value),
                        "5-95 % band " + percent_text(ratio.low) + " to " + percent_text(ratio.high)}});
  body += cross_overs(r.result);
  body += drawn("Time won and lost, by operator", waterfall(r));
  body += html::section("Operators", html::sorting_table(diff_columns(all)), true);
  body += html::section("Inputs", inputs_markup({&r.before, &r.after}), true);
  return html::document("Difference", body, html::kTableScript);
}

std::string diff_svg(const DiffReport& r) {
  return alone(waterfall(r), study_line(r.before) + " against " + study_line(r.after));
}

}  // namespace plumbline
