// A sweep as one page: two figures against each other, a dot a point, and all of them in a table.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "model/machines.hpp"
#include "model/report/html/heat_map.hpp"
#include "model/report/html/markup.hpp"
#include "model/report/html/plot.hpp"
#include "model/report/html/roofline_plot.hpp"
#include "model/report/html/script.hpp"
#include "model/report/html/style.hpp"
#include "model/report/study/study_inputs.hpp"
#include "model/report/study/sweep_report.hpp"

namespace plumbline {
namespace {

constexpr double kSweepPlotHeight = 320, kSweepDot = 4;
constexpr std::size_t kMostDots = 5000, kMostTableRows = 2000, kMostRoofDots = 200;

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
  return html::close_log_axis(least, most);
}

/// A plot as it stands on the page, and as it is drawn alone.
struct Figure {
  std::string markup, words;
  double height = 0, left = 0;
  std::string legend{};  ///< of the page alone
};
constexpr double kPlotLeft = 56;

/// Joins points of one line from left to right: of the Pareto front, or where x is an axis those that differ in it alone.
/// What the lines are; "": there are none.
std::string join_points(const SweepReport& r, const Quantity1D& x, const Quantity1D& y, html::Plot& plot) {
  constexpr std::size_t kMostLines = 64;
  const bool front = r.study.pareto.size() == 2;
  if (!front && !x.of_axis) return "";
  std::map<std::vector<std::string>, std::vector<std::pair<double, double>>> lines;
  for (const StudyRow& row : r.rows.rows) {
    const auto at = x.of(row), up = y.of(row);
    if (!at || !up) continue;
    std::vector<std::string> others = row.settings;
    if (front) others.clear();
    else others[x.place].clear();
    lines[others].emplace_back(*at, *up);
    if (lines.size() > kMostLines) return "";
  }
  std::size_t joined = 0;
  for (auto& [others, points] : lines) {
    std::sort(points.begin(), points.end());
    for (std::size_t i = 1; i < points.size(); ++i, ++joined) {
      plot.line(points[i - 1].first, points[i - 1].second, points[i].first, points[i].second, "series");
    }
  }
  if (joined == 0) return "";
  return front ? "The line is the Pareto front." : "Lines join points that differ in " + x.name + " alone.";
}

/// Values and their colours, where each has one of its own.
std::string colour_legend(const std::vector<std::string>& values) {
  if (values.size() < 2 || values.size() > html::kColours) return "";
  std::string items;
  for (std::size_t i = 0; i < values.size(); ++i) {
    items += "<li><svg role=\"img\" aria-label=\"colour\"><rect class=\"c" + std::to_string(i) +
             "\" width=\"11\" height=\"11\"/></svg><span>" + html::escaped(values[i]) + "</span></li>\n";
  }
  return "<ul class=\"legend\">\n" + items + "</ul>\n";
}

Figure scatter(const SweepReport& r, const Quantity1D& x, const Quantity1D& y) {
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
  std::string words = "A dot is a point of the study.", legend;
  if (const std::string joined = join_points(r, x, y, plot); !joined.empty()) words += " " + joined;
  if (coloured < rows.names.size()) {
    words += " Colours go by " + rows.names[coloured] + (values.size() > html::kColours ? ", in turns." : ".");
    legend = colour_legend(values);
  }
  if (dots > kMostDots) words += " The first " + std::to_string(kMostDots) + " points are drawn.";
  return {plot.svg(), words, kSweepPlotHeight, kPlotLeft, legend};
}

/// Values of an axis in the order in which they come.
std::vector<std::string> values_along(const StudyRows& rows, std::size_t name) {
  std::vector<std::string> out;
  for (const StudyRow& row : rows.rows) {
    const std::string& value = row.settings[name];
    if (std::find(out.begin(), out.end(), value) == out.end()) out.push_back(value);
    if (out.size() > html::kMostHeatCells) break;
  }
  return out;
}

/// Places in a row of each axis' first name: names that go together are one axis.
std::vector<std::size_t> first_names(const Study& study) {
  std::vector<std::size_t> places;
  std::size_t place = 0;
  for (const StudyAxis& axis : study.axes) {
    places.push_back(place);
    place += axis.names.size();
  }
  return places;
}

/// Whether all values fit below the columns of a map that they are along.
bool fit_below(const std::vector<std::string>& values) {
  return std::all_of(values.begin(), values.end(), [&](const std::string& value) {
    return html::label_fit(value, 1 / static_cast<double>(values.size())).fits;
  });
}

/// The two axes with most values, the longer one sideways where its names fit there; further axes stay at their first value. None where there are
/// no two, or one has too many values.
std::optional<Figure> heat(const SweepReport& r, const Quantity1D& y) {
  const StudyRows& rows = r.rows;
  std::vector<std::pair<std::size_t, std::vector<std::string>>> along;
  for (const std::size_t i : first_names(r.study)) {
    std::vector<std::string> values = values_along(rows, i);
    if (values.size() > 1 && values.size() <= html::kMostHeatCells) along.emplace_back(i, std::move(values));
  }
  if (along.size() < 2) return std::nullopt;
  std::stable_sort(along.begin(), along.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  if (!fit_below(along[0].second) && fit_below(along[1].second)) std::swap(along[0], along[1]);
  html::HeatMap map{
      rows.names[along[0].first], rows.names[along[1].first], y.name, along[0].second, along[1].second, {}, {}};
  map.values.assign(map.y.size(), std::vector<std::optional<double>>(map.x.size()));
  map.texts.assign(map.y.size(), std::vector<std::string>(map.x.size()));
  std::string words = y.name + ", the darker the more; shades go by its logarithm.";
  for (std::size_t other = 2; other < along.size(); ++other) {
    words += " " + rows.names[along[other].first] + " is " + along[other].second.front() + ".";
  }
  for (const StudyRow& row : rows.rows) {
    bool drawn = true;
    for (std::size_t other = 2; other < along.size(); ++other) {
      drawn = drawn && row.settings[along[other].first] == along[other].second.front();
    }
    const auto value = y.of(row);
    if (!drawn || !value) continue;
    const auto place = [&](std::size_t axis) {
      const auto& values = along[axis].second;
      return static_cast<std::size_t>(std::find(values.begin(), values.end(), row.settings[along[axis].first]) -
                                      values.begin());
    };
    map.values[place(1)][place(0)] = value;
    map.texts[place(1)][place(0)] = y.of_axis ? row.settings[y.place] : figure_text(y.name, row.figures[y.place]);
  }
  return Figure{html::heat_map(map), words, html::heat_map_height(map), html::heat_map_left(map)};
}

/// Value of a column that is a number above 0.
std::optional<double> figure_of(const StudyRows& rows, const StudyRow& row, const std::string& column) {
  const auto found = std::find(rows.columns.begin(), rows.columns.end(), column);
  if (found == rows.columns.end() || !row.error.empty()) return std::nullopt;
  const auto* number = std::get_if<double>(&row.figures[static_cast<std::size_t>(found - rows.columns.begin())]);
  return number != nullptr && *number > 0 ? std::optional(*number) : std::nullopt;
}

/// Points under the roofs of the one GPU that the study is of, where its columns say work, bytes and time.
std::string roofs(const SweepReport& r) {
  const auto named = [&](const char* name) {
    const auto found = std::find_if(r.study.base.begin(), r.study.base.end(),
                                    [&](const StudySetting& each) { return each.name == name; });
    return found == r.study.base.end() ? std::string() : found->value;
  };
  const bool asked = std::find(r.rows.columns.begin(), r.rows.columns.end(), "flops") != r.rows.columns.end() &&
                     std::find(r.rows.columns.begin(), r.rows.columns.end(), "dram_bytes") != r.rows.columns.end();
  if (named("gpu").empty() || !asked) return "";
  const Gpu& gpu = machines().gpu(named("gpu"));
  std::vector<html::RooflineDot> dots;
  for (const StudyRow& row : r.rows.rows) {
    const auto flops = figure_of(r.rows, row, "flops"), bytes = figure_of(r.rows, row, "dram_bytes"),
               time = figure_of(r.rows, row, "latency_s");
    if (!flops || !bytes || !time || dots.size() >= kMostRoofDots) continue;
    dots.push_back({"", *flops / *bytes * units::FLOP_per_B, *flops / *time * units::FLOP_per_s,
                    1.0 / static_cast<double>(kMostRoofDots), "c0", hint_of(r.rows, row)});
  }
  if (dots.empty()) return "";
  const auto type = parse_dtype(named("dtype"));
  const DType math = type && *type != DType::fp32 ? *type : DType::bf16;
  return html::roofline_plot(gpu, gpu.boost_clock, {html::tensor_roof(gpu, math, gpu.boost_clock)}, std::move(dots),
                             "A dot is a point of the study.");
}

/// What is plotted: the Pareto front's figures, else the objective by the first axis of numbers.
struct Plotted {
  std::vector<Quantity1D> all;
  const Quantity1D* x = nullptr;
  const Quantity1D* y = nullptr;
};

void choose(const SweepReport& r, Plotted& out) {
  out.all = plotted(r.rows);
  out.y = r.study.objective.empty() ? nullptr : find(out.all, bare_name(r.study.objective));
  if (r.study.pareto.size() >= 2) {
    out.x = find(out.all, bare_name(r.study.pareto[0]));
    out.y = find(out.all, bare_name(r.study.pareto[1]));
  }
  for (const Quantity1D& each : out.all) {
    if (out.x == nullptr && each.of_axis) out.x = &each;
    if (out.y == nullptr && !each.of_axis) out.y = &each;
  }
}

}  // namespace

std::string sweep_svg(const SweepReport& r, SweepPlot which) {
  Plotted p;
  choose(r, p);
  std::optional<Figure> figure;
  if (which == SweepPlot::heat && p.y != nullptr) figure = heat(r, *p.y);
  if (which == SweepPlot::points && p.x != nullptr && p.y != nullptr) figure = scatter(r, *p.x, *p.y);
  if (!figure) {
    throw BadInput(which == SweepPlot::heat
                       ? "--plot heat: expected two axes of 2 to " + std::to_string(html::kMostHeatCells) +
                             " values and a column of numbers"
                       : "--plot points: expected an axis and a column of numbers");
  }
  return html::standalone_svg(figure->markup, figure->height, figure->left, study_line(r.study));
}

std::string sweep_html(const SweepReport& r) {
  const std::string title = "Study: " + study_line(r.study);
  std::string body = "<h1>Study</h1>\n<p class=\"soft\">" + html::escaped(study_line(r.study)) + "</p>\n<p>" +
                     html::escaped(sweep_summary(r)) + "</p>\n";
  Plotted p;
  choose(r, p);
  if (p.x != nullptr && p.y != nullptr) {
    const Figure points = scatter(r, *p.x, *p.y);
    body += html::section(p.y->name + " by " + p.x->name, points.markup + html::note(points.words) + points.legend);
  }
  if (p.y != nullptr) {
    if (const auto map = heat(r, *p.y)) {
      body += html::section(p.y->name + " over two axes", map->markup + html::note(map->words));
    }
  }
  if (const std::string under = roofs(r); !under.empty()) body += html::section("Under the roofs", under);
  StudyRows shown = r.rows;
  if (shown.rows.size() > kMostTableRows) shown.rows.resize(kMostTableRows);
  const SweepReport first{r.study, shown, r.top};
  std::string table = html::sorting_table(sweep_columns(first));
  if (shown.rows.size() < r.rows.rows.size()) {
    table += html::note("... and " + std::to_string(r.rows.rows.size() - shown.rows.size()) + " more: --format csv");
  }
  body += html::section("Points", table, true);
  body += html::section("Inputs", inputs_markup({&r.study}), true);
  return html::document(title, body, html::kTableScript);
}

}  // namespace plumbline
