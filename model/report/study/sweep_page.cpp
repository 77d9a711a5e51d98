// A sweep as one page: two figures against each other, a dot a point, and all of them in a table.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "arch/format.hpp"
#include "model/report/html/markup.hpp"
#include "model/report/html/plot.hpp"
#include "model/report/html/style.hpp"
#include "model/report/study/sweep_report.hpp"

namespace plumbline {
namespace {

constexpr double kSweepPlotHeight = 320, kSweepDot = 4;
constexpr std::size_t kMostDots = 5000, kMostTableRows = 2000;

/// A column or an axis of numbers.
struct Quantity1D {
  std::string name;
  bool of_axis = false;
  std::size_t place = 0;

  std::optional<double> of(const StudyRow& row) const {
    if (!row.error.empty()) return std::nullopt;
    if (!of_axis) {
      const auto* number = std::get_if<double>(&row.figures[place]);
      return number != nullptr && *number > 0 ? std::optional(*number) : std::nullopt;
    }
    const std::string& text = row.settings[place];
    double value = 0;
    const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
    const auto [after, error] = std::from_chars(begin, text.data() + text.size(), value);
    return error == std::errc() && value > 0 ? std::optional(value) : std::nullopt;
  }
};

/// Numbers that a plot can have: those above zero of most points.
std::vector<Quantity1D> plotted(const StudyRows& rows) {
  std::vector<Quantity1D> found;
  const auto try_one = [&](Quantity1D each) {
    std::size_t numbers = 0;
    for (const StudyRow& row : rows.rows) numbers += each.of(row) ? 1 : 0;
    if (numbers > 0 && 2 * numbers >= rows.rows.size()) found.push_back(std::move(each));
  };
  for (std::size_t i = 0; i < rows.names.size(); ++i) try_one({rows.names[i], true, i});
  for (std::size_t i = 0; i < rows.columns.size(); ++i) try_one({rows.columns[i], false, i});
  return found;
}

const Quantity1D* find(const std::vector<Quantity1D>& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Quantity1D& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string bare_name(const std::string& objective) {
  const std::size_t blank = objective.rfind(' ');
  return blank == std::string::npos ? objective : objective.substr(blank + 1);
}

/// Colour by the first axis that is not plotted, where it has few values.
std::size_t colour_axis(const StudyRows& rows, const Quantity1D& x) {
  for (std::size_t i = 0; i < rows.names.size(); ++i) {
    if (!(x.of_axis && x.place == i)) return i;
  }
  return rows.names.size();
}

std::string hint_of(const StudyRows& rows, const StudyRow& row) {
  std::string text;
  for (std::size_t i = 0; i < rows.names.size(); ++i) {
    text += (i > 0 ? ", " : "") + rows.names[i] + " " + row.settings[i];
  }
  for (std::size_t i = 0; i < rows.columns.size() && i < 4; ++i) {
    text += (text.empty() ? "" : ", ") + rows.columns[i] + " " + figure_text(rows.columns[i], row.figures[i]);
  }
  return text;
}

html::Axis axis_of(const StudyRows& rows, const Quantity1D& q) {
  double least = std::numeric_limits<double>::max(), most = 0;
  for (const StudyRow& row : rows.rows) {
    if (const auto value = q.of(row)) least = std::min(least, *value), most = std::max(most, *value);
  }
  if (least == most) least = 0.9 * most, most = 1.1 * most;
  return html::log_axis(least, most);
}

std::string scatter(const SweepReport& r, const Quantity1D& x, const Quantity1D& y) {
  const StudyRows& rows = r.rows;
  html::Plot plot(axis_of(rows, x), axis_of(rows, y), kSweepPlotHeight, "points of the study");
  plot.axes(x.name, y.name);
  const std::size_t coloured = colour_axis(rows, x);
  std::vector<std::string> values;
  std::size_t dots = 0;
  for (const StudyRow& row : rows.rows) {
    const auto at = x.of(row), up = y.of(row);
    if (!at || !up || ++dots > kMostDots) continue;
    std::size_t colour = 0;
    if (coloured < rows.names.size()) {
      const std::string& value = row.settings[coloured];
      auto known = std::find(values.begin(), values.end(), value);
      if (known == values.end()) known = values.insert(values.end(), value);
      colour = static_cast<std::size_t>(known - values.begin()) % html::kColours;
    }
    plot.dot(*at, *up, kSweepDot, "c" + std::to_string(colour), hint_of(rows, row));
  }
  std::string words = "A dot is a point of the study.";
  if (coloured < rows.names.size()) words += " Colours go by " + rows.names[coloured] + ".";
  if (dots > kMostDots) words += " The first " + std::to_string(kMostDots) + " points are drawn.";
  return plot.svg() + html::note(words);
}

}  // namespace

std::string sweep_html(const SweepReport& r) {
  const std::string title = "Study: " + study_line(r.study);
  std::string body = "<h1>Study</h1>\n<p class=\"soft\">" + html::escaped(study_line(r.study)) + "</p>\n<p>" +
                     html::escaped(sweep_summary(r)) + "</p>\n";
  const std::vector<Quantity1D> all = plotted(r.rows);
  const Quantity1D* y = r.study.objective.empty() ? nullptr : find(all, bare_name(r.study.objective));
  const Quantity1D* x = nullptr;
  if (r.study.pareto.size() >= 2) {
    x = find(all, bare_name(r.study.pareto[0]));
    y = find(all, bare_name(r.study.pareto[1]));
  }
  for (const Quantity1D& each : all) {
    if (x == nullptr && each.of_axis) x = &each;
    if (y == nullptr && !each.of_axis) y = &each;
  }
  if (x != nullptr && y != nullptr) {
    body += html::section(y->name + " by " + x->name, scatter(r, *x, *y));
  }
  StudyRows shown = r.rows;
  if (shown.rows.size() > kMostTableRows) shown.rows.resize(kMostTableRows);
  const SweepReport first{r.study, shown, r.top};
  std::string table = html::table(sweep_columns(first));
  if (shown.rows.size() < r.rows.rows.size()) {
    table += html::note("... and " + std::to_string(r.rows.rows.size() - shown.rows.size()) + " more: --format csv");
  }
  body += html::section("Points", table, true);
  return html::document(title, body);
}

}  // namespace plumbline
