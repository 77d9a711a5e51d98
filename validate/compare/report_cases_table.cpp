// The class table of a recording with its demands and conditions below, and the kernels table for the README.
#include <set>

#include "validate/compare/report_cases.hpp"

namespace plumbline {

namespace {

std::string session_line(const MeasuringSession& s) {
  return s.card + ", driver " + s.driver + ", toolkit " + s.toolkit + ", " + s.date +
         (s.dropped_records > 0 ? ", " + std::to_string(s.dropped_records) + " profiler records dropped" : "");
}

std::string demand_lines(const CaseReport& report) {
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

std::string roofline_line(const CaseReport& report) {
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

std::string table_report(const CaseReport& report) {
  std::string text = session_line(report.session) + "\n" + table_report(report.summary);
  if (!report.summary.classes.empty()) text += roofline_line(report);
  text += demand_lines(report);
  for (const ConditionRange& range : condition_ranges(report)) text += range.name + ": " + range.text + "\n";
  return text;
}

std::string kernels_table(const CaseReport& report) {
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
  return text + notes + "\n" + session_line(report.session) + ".\n";
}

}  // namespace plumbline
