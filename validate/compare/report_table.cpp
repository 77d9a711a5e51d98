// The class table, of a recording with its demands and conditions below, and the kernels table for the README.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "arch/format.hpp"
#include "validate/compare/report.hpp"
#include "validate/printed.hpp"

namespace plumbline {

namespace {

using Cells = std::vector<std::string>;

/// Columns that only recordings of a card fill.
struct Extra {
  bool mode = false, library = false;
  explicit Extra(const std::vector<ClassSummary>& classes) {
    for (const ClassSummary& c : classes) {
      mode = mode || !c.mode.empty();
      library = library || c.library_count > 0;
    }
  }
  std::size_t left_aligned() const { return mode ? 5 : 4; }  // the class
};

Cells heading(const Extra& extra) {
  Cells line{"gpu", "op", "dtype"};
  if (extra.mode) line.emplace_back("mode");
  for (const char* text : {"measured", "rows", "median%", "p90%", "MAPE%", "bias%", "in band%", "rank", "roof%"}) {
    line.emplace_back(text);
  }
  if (extra.mode) line.emplace_back("roof MAPE%");
  if (extra.library) line.emplace_back("of library%");
  line.emplace_back("worst");
  line.emplace_back("at");
  return line;
}

Cells line_of(const ClassSummary& c, const Extra& extra) {
  Cells line{c.gpu, c.op, c.dtype};
  if (extra.mode) line.push_back(c.mode);
  for (std::string text :
       {std::string(name(c.size)), std::to_string(c.count), percent_number(c.median_error), percent_number(c.p90_error),
        percent_number(c.mape), printed("%+.1f", 100 * c.median_bias), percent_number(c.within_band),
        c.spearman ? printed("%.3f", *c.spearman) : std::string("-"), percent_number(c.roofline_median_error)}) {
    line.push_back(std::move(text));
  }
  if (extra.mode) line.push_back(percent_number(c.roofline_mape));
  if (extra.library) line.push_back(c.library_count > 0 ? percent_number(c.library_ratio) : "-");
  line.push_back(printed("x%.2f", c.worst.predicted / c.worst.measured));
  line.push_back(c.worst.shape + " (" + format(c.worst.measured) + ")");
  return line;
}

std::string aligned(const std::vector<Cells>& lines, std::size_t left_aligned) {
  std::vector<std::size_t> width(lines.front().size());
  for (const Cells& line : lines) {
    for (std::size_t i = 0; i < width.size(); ++i) width[i] = std::max(width[i], line[i].size());
  }
  std::string text;
  for (const Cells& line : lines) {
    for (std::size_t i = 0; i < width.size(); ++i) {
      const std::string pad(width[i] - line[i].size(), ' ');
      const bool last = i + 1 == width.size();
      if (i < left_aligned || last) {
        text += line[i] + (last ? "\n" : pad + "  ");
      } else {
        text += pad + line[i] + "  ";
      }
    }
  }
  return text;
}

std::string power_lines(const ReportSummary& report) {
  std::string text;
  for (const ClassSummary& c : report.classes) {
    if (c.power_count == 0) continue;
    text += "power, " + c.gpu + " " + c.op + " " + c.dtype + " " + std::string(name(c.size)) + ": " +
            std::to_string(c.power_count) + " rows, median error " + percent_number(c.power_median_error) + " %\n";
  }
  return text;
}

/// A line a reason: what is missing from the table must not be hidden in a count.
std::string missing_lines(const ReportSummary& report) {
  constexpr std::size_t kReasonsShown = 10;
  std::string text;
  for (const NotCompared& missing : report.not_compared) {
    if (&missing - report.not_compared.data() == kReasonsShown) {
      return text + "  ... and " + std::to_string(report.not_compared.size() - kReasonsShown) + " reasons more\n";
    }
    text += "  " + std::to_string(missing.rows) + (missing.rows == 1 ? " row: " : " rows: ") + missing.reason +
            " (first: " + missing.first + ")\n";
  }
  return text;
}

std::string summary_table(const ReportSummary& report) {
  std::string text = "stack " + report.stack + ", kernels " + report.kernels + ", clock " + report.clock + ": " +
                     std::to_string(report.compared) + " rows compared";
  if (report.bad > 0) text += ", " + std::to_string(report.bad) + " could not be read";
  if (report.not_measured > 0) text += ", " + std::to_string(report.not_measured) + " not measured";
  if (report.not_modelled > 0) text += ", " + std::to_string(report.not_modelled) + " not modelled";
  if (report.filtered > 0) text += ", " + std::to_string(report.filtered) + " left out by --ops, --where or --min-us";
  if (report.other_gpu > 0) text += ", " + std::to_string(report.other_gpu) + " of other GPUs left out";
  text += "\n" + missing_lines(report);
  if (report.classes.empty()) return text;
  const Extra extra(report.classes);
  std::vector<Cells> lines{heading(extra)};
  for (const ClassSummary& c : report.classes) lines.push_back(line_of(c, extra));
  text += "\n";
  text += aligned(lines, extra.left_aligned());
  text += "\n";
  text += power_lines(report);
  text +=
      "median, p90: 100 |ln(predicted/measured)|; bias: median of ln(predicted/measured), + is predicted too slow;\n"
      "rank: Spearman; roof: median error of the datasheet roofline; worst: predicted/measured, and at which shape\n";
  if (extra.library) text += "of library: library time / own time, geometric mean; above 100 our kernel is faster\n";
  for (const std::string& assumption : report.assumptions) text += "assumed: " + assumption + "\n";
  return text;
}

std::string session_line(const MeasuringSession& s) {
  return s.card + ", driver " + s.driver + ", toolkit " + s.toolkit + ", " + s.date +
         (s.dropped_records > 0 ? ", " + std::to_string(s.dropped_records) + " profiler records dropped" : "") +
         (s.other_processes > 0 ? ", " + shared_card_text(s) : "");
}

std::string demand_lines(const Report& report) {
  std::string text;
  for (const DemandResult& r : report.results) {
    text += (r.met() ? "  met    " : "  below  ") + r.demand->title + ": " + r.achieved() + " of " +
            r.demand->demanded() + " demanded, " + std::to_string(r.cases.size()) +
            (r.cases.size() == 1 ? " case" : " cases");
    if (!r.met()) text += ", " + std::to_string(r.below.size()) + " below; not representative: " + r.reason;
    text += "\n";
  }
  return text.empty() ? text : "demands on our kernels\n" + text;
}

std::string roofline_line(const Report& report) {
  const auto behind = report.behind_roofline();
  std::string text;
  for (const ClassSummary* c : behind) {
    text += (text.empty() ? "" : "; ") + c->op + " " + c->dtype + " " + c->mode + " " + std::string(name(c->size));
  }
  return behind.empty() ? "every class is predicted better than by the roofline (MAPE)\n"
                        : "not better than the roofline (MAPE): " + text + "\n";
}

/// Cells of a Markdown table hold no bar.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

}  // namespace

std::string table_report(const Report& report) {
  if (!report.session) return summary_table(report.summary);
  std::string text = session_line(*report.session) + "\n" + summary_table(report.summary);
  if (!report.summary.classes.empty()) text += roofline_line(report);
  text += demand_lines(report);
  for (const ConditionRange& range : condition_ranges(report)) text += range.name + ": " + range.text + "\n";
  return text;
}

std::string kernels_table(const Report& report) {
  std::string text =
      "| kernel | demanded | achieved: median, beside the library geometric mean (worst to best) | cases | of them "
      "below "
      "| verdict |\n|---|--:|--:|--:|--:|---|\n";
  std::string notes;
  int note = 0;
  for (const DemandResult& r : report.results) {
    std::string verdict = "met";
    if (!r.met()) {
      verdict = "not representative (" + std::to_string(++note) + ")";
      notes += std::to_string(note) + ". " + r.reason + "\n";
    }
    text += "| " + cell(r.demand->title) + " | " + r.demand->demanded() + " | " + r.achieved() + " | " +
            std::to_string(r.cases.size()) + " | " + std::to_string(r.below.size()) + " | " + verdict + " |\n";
  }
  if (!notes.empty()) notes = "\nWhy, of the worst case each:\n" + notes;
  return text + notes + "\n" + session_line(report.session.value_or(MeasuringSession{})) + ".\n";
}

}  // namespace plumbline
