#include "validate/cli/replay.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>

#include "validate/compare/report.hpp"
#include "validate/compare/report_repeat.hpp"
#include "validate/record/study.hpp"

namespace plumbline {

namespace {

CompareOptions compare_options(const CaseReportRequest& request) {
  CompareOptions options;
  options.gpu = request.card.gpu;
  options.overrides = request.card.overrides;
  options.kernels = request.kernels;
  options.calibration_file = request.card.calibration_file;
  options.ops = request.rows.ops;
  options.where = request.rows.where;
  options.at_least = request.rows.at_least;
  return options;
}

/// What could not be measured or modelled, a reason at a time with the first cases it speaks of. True when any.
bool show_trouble(const Report& report, std::ostream& messages) {
  constexpr std::size_t kCasesShown = 3;
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const CaseFault& fault : report.faults) {
    by_reason[fault.reason].push_back((fault.place.empty() ? "" : fault.place + " ") + fault.what);
  }
  for (const ReportRow& row : report.rows) {
    if (row.compared.modelled()) continue;
    by_reason[row.compared.error].push_back(row.compared.place + " " + case_text(row.measured.what));
  }
  for (const auto& [reason, cases] : by_reason) {
    messages << cases.size() << (cases.size() == 1 ? " case: " : " cases: ") << reason << "\n";
    for (std::size_t i = 0; i < std::min(cases.size(), kCasesShown); ++i) messages << "  " << cases[i] << "\n";
    if (cases.size() > kCasesShown) messages << "  ...\n";
  }
  return !by_reason.empty();
}

ExitCode run_repeat(const ReplayRequest& request, const Recording& first, std::ostream& out) {
  constexpr double kUsualLimit = 0.02;
  const AskedReport& asked = request.compared.report;
  const double limit = asked.fail_over_percent ? *asked.fail_over_percent / 100 : kUsualLimit;
  const std::vector<RepeatClass> classes = compare_runs(first, read_recording(request.repeat_file));
  if (classes.empty()) throw BadInput(request.repeat_file + ": expected cases of the other recording, found none");
  write_or_print(asked.file(), repeat_table(classes, limit), out);
  const auto moved = [&](const RepeatClass& r) { return std::abs(r.median_ln) > limit; };
  return asked.fail_over_percent && std::any_of(classes.begin(), classes.end(), moved) ? ExitCode::answered_no
                                                                                       : ExitCode::done;
}

}  // namespace

void need_measured_set(KernelSet kernels) {
  if (kernels == KernelSet::ideal) {
    throw BadInput("--kernels ideal: nothing is measured of ideal kernels; expected own or library");
  }
}

ExitCode report_on(const Recording& recording, const CaseReportRequest& request, const std::vector<std::string>& files,
                   const std::string& report_file, std::ostream& out, std::ostream& messages) {
  const auto report = compare_recording(recording, compare_options(request), read_demands());
  report->summary.files = files;
  const bool trouble = show_trouble(*report, messages);
  if (report->session->dropped_records > 0) {
    messages << "validate: the profiler dropped " << report->session->dropped_records << " records\n";
  }
  const std::string text = request.kernels_table ? kernels_table(*report) : text_in(*report, request.report.format);
  write_or_print(report_file, text, out);
  return accuracy_answer(report->summary.classes, request.report.fail_over_percent, messages,
                         trouble ? ExitCode::not_modelled : ExitCode::done);
}

ExitCode run_replay(const ReplayRequest& request, std::ostream& out, std::ostream& messages) {
  need_measured_set(request.compared.kernels);
  need_operators(request.compared.rows.ops);
  const Recording recording = read_recording(request.file);
  if (!request.repeat_file.empty()) return run_repeat(request, recording, out);
  return report_on(recording, request.compared, {request.file}, request.compared.report.file(), out, messages);
}

}  // namespace plumbline
