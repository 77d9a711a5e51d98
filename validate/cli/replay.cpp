#include "validate/cli/replay.hpp"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "validate/compare/report.hpp"
#include "validate/compare/report_repeat.hpp"
#include "validate/diff/recording_diff.hpp"
#include "validate/record/step.hpp"
#include "validate/record/study.hpp"

namespace plumbline {

namespace {

CompareOptions compare_options(const CaseReportRequest& request) {
  CompareOptions options;
  options.gpu = request.card.gpu;
  options.overrides = request.card.overrides;
  options.stack = request.stack;
  options.calibration_file = request.card.calibration_file;
  options.ops = request.rows.ops;
  options.where = request.rows.where;
  options.at_least = request.rows.at_least;
  return options;
}

/// What could not be measured or modelled, in a line; the report has each reason. True when any.
bool say_trouble(const Report& report, std::ostream& messages) {
  std::vector<std::string> lines;
  for (const CaseFault& fault : report.faults) lines.push_back(fault.text());
  for (const ReportRow& row : report.rows) {
    if (row.compared.modelled()) continue;
    lines.push_back(row.compared.place + ": " + case_text(row.measured.what) + ": " + row.compared.error);
  }
  show_trouble(lines, report.faults.size() + report.rows.size(), "cases could not be measured or priced", messages);
  return !lines.empty();
}

}  // namespace

KernelSet need_measured_set(const StackChoice& stack) {
  const KernelSet kernels = kernels_of(stack);
  if (kernels != KernelSet::ideal) return kernels;
  throw BadInput("--stack, --kernels: nothing is measured of ideal kernels; expected own or library");
}

ExitCode report_on(const Recording& recording, const CaseReportRequest& request, const std::vector<std::string>& files,
                   std::ostream& out, std::ostream& messages) {
  const auto report = compare_recording(recording, compare_options(request), read_demands());
  report->summary.files = files;
  const bool trouble = say_trouble(*report, messages);
  if (report->session->dropped_records > 0) {
    messages << "validate: the profiler dropped " << report->session->dropped_records << " records\n";
  }
  const std::string text = request.kernels_table ? kernels_table(*report) : text_in(*report, request.report.format);
  write_or_print(request.report, text, out);
  return accuracy_answer(report->summary.classes, request.report.fail_over_percent, messages,
                         trouble ? ExitCode::not_modelled : ExitCode::done);
}

ExitCode run_replay(const ReplayRequest& request, std::ostream& out, std::ostream& messages) {
  need_measured_set(request.compared.stack);
  need_operators(request.compared.rows.ops);
  return report_on(read_recording(request.file), request.compared, {request.file}, out, messages);
}

ExitCode run_repeat(const RepeatRequest& request, std::ostream& out, std::ostream& messages) {
  constexpr double kUsualLimit = 0.02;
  const AskedReport& asked = request.report;
  if (asked.format == "html") throw BadInput("--format html: --repeat prints table, json or csv");
  const double limit = asked.fail_over_percent ? *asked.fail_over_percent / 100 : kUsualLimit;
  const std::vector<RepeatClass> classes =
      compare_runs(read_recording(request.file), read_recording(request.repeat_file));
  if (classes.empty()) throw BadInput(request.repeat_file + ": expected cases of the other recording, found none");
  write_or_print(asked,
                 asked.format == "csv"    ? repeat_csv(classes)
                 : asked.format == "json" ? repeat_json(classes)
                                          : repeat_table(classes, limit),
                 out);
  const auto moved = [&](const RepeatClass& r) { return std::abs(r.median_ln) > limit; };
  const auto count = std::count_if(classes.begin(), classes.end(), moved);
  if (!asked.fail_over_percent || count == 0) return ExitCode::done;
  messages << "validate: " << count << " of " << classes.size() << " classes moved by more than the "
           << *asked.fail_over_percent << " % asked for\n";
  return ExitCode::answered_no;
}

namespace {

RecordingDifference read_difference(const DiffRequest& request) {
  const std::string before = read_text_file(request.before), after = read_text_file(request.after);
  const bool steps = is_step_recording(before);
  if (steps != is_step_recording(after)) {
    throw BadInput(request.after + ": expected a recording of " + (steps ? "steps" : "operators") + ", as '" +
                   request.before + "' is one");
  }
  if (steps && !request.ops.empty()) throw BadInput("--ops: has no meaning for recordings of steps");
  need_operators(request.ops);
  return steps ? difference_of(parse_step_recording(before, request.before), parse_step_recording(after, request.after))
               : difference_of(parse_recording(before, request.before), parse_recording(after, request.after),
                               request.ops);
}

}  // namespace

ExitCode run_diff(const DiffRequest& request, std::ostream& out, std::ostream& messages) {
  constexpr std::size_t kMostRows = 20;
  const RecordingDifference difference = read_difference(request);
  if (difference.pairs.empty()) {
    throw BadInput(request.after + ": expected cases of '" + request.before + "' with a time, found none");
  }
  warn_of_shared_card(difference.before, messages);
  warn_of_shared_card(difference.after, messages);
  write_or_print(request.report,
                 request.report.format == "csv"    ? difference_csv(difference)
                 : request.report.format == "json" ? difference_json(difference)
                                                   : difference_table(difference, kMostRows),
                 out);
  if (!request.report.fail_over_percent) return ExitCode::done;
  const double limit = 1 + *request.report.fail_over_percent / 100;
  const std::vector<GroupDifference> groups = groups_of(difference);
  const auto slower =
      std::count_if(groups.begin(), groups.end(), [&](const GroupDifference& g) { return g.after > limit * g.before; });
  if (slower == 0) return ExitCode::done;
  messages << "validate: " << slower << " of " << groups.size() << " groups take more than the "
           << *request.report.fail_over_percent << " % longer that are allowed\n";
  return ExitCode::answered_no;
}

}  // namespace plumbline
