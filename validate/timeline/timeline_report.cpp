#include <algorithm>
#include <cmath>

#include "arch/format.hpp"
#include "model/report/columns.hpp"
#include "model/report/report.hpp"
#include "model/words.hpp"
#include "validate/printed.hpp"
#include "validate/records.hpp"
#include "validate/timeline/compare_timeline.hpp"

namespace plumbline {
namespace {

/// Of the busy time: operators below it share a line.
constexpr double kLeastShare = 0.005;
/// Of the launches of a step: with fewer, what they took together is no step's time.
constexpr double kWholeStep = 0.8;
constexpr std::size_t kMostLeftOver = 8, kNameWidth = 60, kShapeWidth = 34;

std::string cut(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

std::string ratio_of(Seconds predicted, Seconds measured) {
  return measured > Seconds{} ? printed("%.2f", predicted / measured) : "-";
}

std::string found_text(const TimelineRow& row) {
  std::string text = std::to_string(row.executions);
  if (row.executions != row.expected) text += " of " + std::to_string(row.expected);
  return text;
}

void add_row(Columns& table, const TimelineReport& r, const TimelineRow& row, bool dram) {
  std::vector<std::string> cells{row.name,
                                 row.op,
                                 cut(row.shape, kShapeWidth),
                                 found_text(row),
                                 row.executions > 0 ? format(row.measured) : "-",
                                 row.executions > 0 ? format(row.predicted) : "-",
                                 ratio_of(row.predicted, row.measured),
                                 percent_number(row.measured / r.timeline.busy())};
  if (dram) {
    const bool counted = row.measured_dram && *row.measured_dram > Bytes{};
    cells.push_back(counted ? format(*row.measured_dram) : "-");
    cells.push_back(counted ? printed("%.2f", row.predicted_dram / *row.measured_dram) : "-");
  }
  table.add(std::move(cells));
}

Columns columns_of(bool dram) {
  using enum Columns::Align;
  std::vector<Columns::Column> titles{
      {"operator"},         {"op"},           {"shape"},        {"found", right}, {"measured", right},
      {"predicted", right}, {"ratio", right}, {"time %", right}};
  if (dram) {
    titles.push_back({"DRAM", right});
    titles.push_back({"ratio", right});
  }
  return Columns(std::move(titles));
}

std::string heading(const TimelineReport& r) {
  const Timeline& t = r.timeline;
  std::string text =
      std::string(name(t.source)) + " " + t.file + ": " + (t.card.name.empty() ? "" : t.card.name + ", ");
  text += std::to_string(r.alignment.steps) + (r.alignment.steps == 1 ? " step, " : " steps, ");
  text += std::to_string(t.kernels.size()) + " launches, " + format(t.busy()) + " busy";
  if (t.source != TimelineSource::ncu) text += " of " + format(t.span());
  if (t.other_devices > 0) text += "; " + std::to_string(t.other_devices) + " launches of other devices left out";
  text += "\npriced on " + r.gpu + ": " + model_row_text(r.asked) + ", stack " + r.stack + ", clock " +
          std::string(word_of(kClockWords, r.clock)) + "\n";
  return text;
}

std::string closing(const TimelineReport& r) {
  const double steps = r.alignment.steps;
  std::string text = "  " + percent_number(1 - r.unmatched_share()) + " % of the time is matched, " +
                     percent_number(r.unmatched_share()) + " % is no operator's; ratio: predicted / measured\n";
  long found = 0, expected = 0;
  for (const TimelineRow& row : r.rows) {
    found += row.executions;
    expected += row.expected;
  }
  if (static_cast<double>(found) < kWholeStep * static_cast<double>(expected)) {
    return text + "  the file holds a part of a step\n";
  }
  text += "  a step: " + format(r.timeline.busy() / steps) + " busy, predicted ";
  Seconds all;
  for (const ExpectedLaunch& each : r.expected) {
    all += kernel_time(r.step.nodes[static_cast<std::size_t>(each.node)].op);
  }
  text += format(all);
  if (r.timeline.source != TimelineSource::ncu) {
    text += "; from first to last " + format(r.timeline.span() / steps) + " (profilers slow the host), predicted " +
            format(r.step.latency) + " (" + format(r.step.low) + " to " + format(r.step.high) + ")";
  }
  return text + "\n";
}

std::string left_over_lines(const TimelineReport& r) {
  if (r.left_over.empty()) return "";
  std::string text = "\nno operator's\n";
  for (std::size_t i = 0; i < std::min(kMostLeftOver, r.left_over.size()); ++i) {
    const LeftOver& each = r.left_over[i];
    text += "  " + std::to_string(each.count) + " x " + cut(each.kernel, kNameWidth) +
            (each.call.empty() ? "" : " (" + each.call + ")") + ": " + format(each.time) + "\n";
  }
  if (r.left_over.size() > kMostLeftOver) {
    text += "  and " + std::to_string(r.left_over.size() - kMostLeftOver) + " kinds more\n";
  }
  return text;
}

}  // namespace

std::string timeline_table(const TimelineReport& r) {
  const bool dram = std::any_of(r.rows.begin(), r.rows.end(), [](const auto& row) { return row.measured_dram; });
  Columns table = columns_of(dram);
  TimelineRow rest;
  long kinds = 0;
  for (const TimelineRow& row : by_operator(r)) {
    if (row.executions > 0 && row.measured / r.timeline.busy() < kLeastShare) {
      rest.executions += row.executions;
      rest.expected += row.expected;
      rest.measured += row.measured;
      rest.predicted += row.predicted;
      ++kinds;
    } else {
      add_row(table, r, row, dram);
    }
  }
  if (kinds > 0) {
    rest.name = std::to_string(kinds) + " others";
    add_row(table, r, rest, dram);
  }
  table.add_rule();
  TimelineRow all;
  all.name = "matched";
  for (const TimelineRow& row : r.rows) {
    all.executions += row.executions;
    all.expected += row.expected;
  }
  all.measured = r.matched();
  all.predicted = r.predicted_matched();
  add_row(table, r, all, dram);
  return heading(r) + "\n" + table.text(2, {}) + "\n" + closing(r) + left_over_lines(r);
}

std::string timeline_csv(const TimelineReport& r) {
  std::vector<FieldRecord> records;
  for (const TimelineRow& row : r.rows) {
    FieldRecord record{{"name", row.name},
                       {"op", row.op},
                       {"dtype", row.dtype},
                       {"shape", row.shape},
                       {"executions", row.executions},
                       {"expected", row.expected},
                       {"measured_us", row.measured.in(units::us)},
                       {"predicted_us", row.predicted.in(units::us)},
                       {"ratio", std::monostate()},
                       {"measured_dram_bytes", std::monostate()},
                       {"predicted_dram_bytes", row.predicted_dram.in(units::B)}};
    if (row.measured > Seconds{}) record[8].second = row.predicted / row.measured;
    if (row.measured_dram) record[9].second = row.measured_dram->in(units::B);
    records.push_back(std::move(record));
  }
  return records_csv(records);
}

}  // namespace plumbline
