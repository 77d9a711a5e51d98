#include "model/report/study/sweep_report.hpp"

#include <algorithm>

#include "arch/format.hpp"
#include "arch/printable.hpp"
#include "arch/units.hpp"
#include "model/study/lines.hpp"

namespace plumbline {
namespace {

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool starts_with(const std::string& text, std::string_view start) { return text.rfind(start, 0) == 0; }

}  // namespace

std::string figure_text(const std::string& column, const StudyFigure& figure) {
  if (const auto* word = std::get_if<std::string>(&figure)) return *word;
  if (const auto* yes = std::get_if<bool>(&figure)) return *yes ? "yes" : "no";
  const auto* number = std::get_if<double>(&figure);
  if (number == nullptr) return "-";
  if (starts_with(column, "memory_bytes") || column == "dram_bytes") return format(*number * units::B);
  if (starts_with(column, "time_share") || column == "mfu" || column == "mbu" || column == "limiter_share") {
    return percent(*number);
  }
  if (starts_with(column, "tokens_per")) return format(*number);
  if (starts_with(column, "network_s") || ends_with(column, "_s")) return format(*number * units::s);
  if (ends_with(column, "_J")) return format(*number * units::J);
  if (ends_with(column, "_W")) return format(*number * units::W);
  if (ends_with(column, "_Hz")) return format(*number * units::Hz);
  if (column == "flops") return format(*number * units::FLOP);
  return format(*number);
}

std::string study_line(const Study& study) {
  std::string text = study.of_op ? "op" : "llm";
  for (const StudySetting& each : study.base) {
    if (each.name == "op") text += " " + each.value;
  }
  for (const StudySetting& each : study.base) {
    if (each.name != "op") text += " " + each.name + "=" + each.value;
  }
  return text;
}

Columns sweep_columns(const SweepReport& r) {
  const StudyRows& rows = r.rows;
  const bool refused =
      std::any_of(rows.rows.begin(), rows.rows.end(), [](const StudyRow& row) { return !row.error.empty(); });
  std::vector<Columns::Column> titles;
  for (const std::string& name : rows.names) titles.push_back({printable(name), Columns::Align::right});
  for (const std::string& name : rows.columns) titles.push_back({name, Columns::Align::right});
  if (refused) titles.push_back({"error", Columns::Align::left});
  Columns table(std::move(titles));
  for (const StudyRow& row : rows.rows) {
    std::vector<std::string> cells;
    for (const std::string& each : row.settings) cells.push_back(printable(each));
    for (std::size_t i = 0; i < rows.columns.size(); ++i) {
      cells.push_back(row.error.empty() ? figure_text(rows.columns[i], row.figures[i]) : "");
    }
    if (refused) cells.push_back(printable(row.error));
    table.add(std::move(cells));
  }
  return table;
}

std::string sweep_summary(const SweepReport& r) {
  const StudyRows& rows = r.rows;
  std::string text = std::to_string(rows.rows.size()) + " of " + std::to_string(rows.counts.points) + " points";
  const Study& study = r.study;
  if (!study.pareto.empty()) {
    text += ": no other point that fits beats them in all of ";
    for (std::size_t i = 0; i < study.pareto.size(); ++i) text += (i > 0 ? ", " : "") + study.pareto[i];
  } else if (r.top > 0) {
    text += ": the best that fit, by " + study.objective;
  }
  if (!study.where.empty()) {
    text += "; where ";
    for (std::size_t i = 0; i < study.where.size(); ++i) text += (i > 0 ? " and " : "") + study.where[i];
  }
  return printable(text);
}

std::string sweep_table(const SweepReport& r, const TextStyle& style) {
  return fitted(printable(study_line(r.study))) + "\n" + sweep_columns(r).text(2, style) + "\n" +
         fitted(sweep_summary(r));
}

std::string sweep_lines(const SweepReport& r, SweepFormat format) {
  const SweepLines lines(format, r.rows.names, r.rows.columns);
  std::string out = lines.head();
  bool first = true;
  std::vector<const std::string*> settings;
  for (const StudyRow& row : r.rows.rows) {
    settings.clear();
    for (const std::string& each : row.settings) settings.push_back(&each);
    lines.append(settings, row.figures, row.error, first, out);
    first = false;
  }
  return out + lines.tail();
}

}  // namespace plumbline
