// `validate` on a card and `validate --replay`: measure or read, then the same comparison and report.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <utility>

#include "arch/files.hpp"
#include "ops/op/text.hpp"
#include "validate/cli/commands.hpp"
#include "validate/compare/pricing.hpp"
#include "validate/compare/report.hpp"
#include "validate/compare/report_repeat.hpp"
#include "validate/measure/live.hpp"
#include "validate/record/study.hpp"

namespace plumbline {

namespace {

/// Prices tasks on the machines of one card, each made once.
class TaskPricer {
 public:
  TaskPricer(const Gpu& gpu, std::string calibration_file)
      : gpu_(gpu), calibration_file_(std::move(calibration_file)), prediction_(std::make_unique<OpPrediction>()) {}

  const OpPrediction& operator()(const LiveTask& task) {
    predict(task.what.op, of(task), *prediction_, {.warm = task.what.cache == CacheState::warm});
    return *prediction_;
  }

 private:
  const Machine& of(const LiveTask& task) {
    auto& machine = machines_[{task.kernels, task.what.clock}];
    if (!machine) {
      MachineOptions options;
      options.kernels = task.kernels;
      options.clock = task.what.clock;
      machine = make_machine(gpu_, calibration_for(gpu_, calibration_file_), options);
    }
    return *machine;
  }

  Gpu gpu_;
  std::string calibration_file_;
  std::unique_ptr<OpPrediction> prediction_;
  std::map<std::pair<KernelSet, ClockMode>, std::shared_ptr<const Machine>> machines_;
};

CompareOptions compare_options(const ValidateRequest& request) {
  CompareOptions options;
  options.gpu = request.gpu;
  options.overrides = request.overrides;
  options.kernels = request.kernels;
  options.calibration_file = request.calibration_file;
  options.ops = request.ops;
  options.where = request.where;
  options.at_least = request.at_least;
  return options;
}

/// The cases that are asked for; a list of several files holds each case once.
std::vector<StudyCase> study_cases(const ValidateRequest& request) {
  std::vector<std::string> files = request.studies;
  if (files.empty() && request.quick) files = {study_file("quick")};
  if (files.empty()) files = {study_file("train"), study_file("heldout")};
  std::vector<StudyCase> cases;
  std::map<std::string, std::string> seen;
  for (const std::string& file : files) {
    for (StudyCase& what : read_study(file)) {
      if (!seen.emplace(case_key(what), what.place).second) continue;
      if (keeps_case(request.where, what, "")) cases.push_back(std::move(what));
    }
  }
  if (cases.empty()) throw BadInput("--where: no case of the studies is left");
  return cases_of_ops(std::move(cases), request.ops);
}

void need_measured_set(KernelSet kernels) {
  if (kernels == KernelSet::ideal) {
    throw BadInput("--kernels ideal: nothing is measured of ideal kernels; expected own or library");
  }
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

/// Writes the report, lists what went wrong, and says how it ended; done or a code of its own.
ExitCode report_on(const Recording& recording, const ValidateRequest& request, const std::vector<std::string>& files,
                   const std::string& report_file, std::ostream& out, std::ostream& messages) {
  const auto report = compare_recording(recording, compare_options(request), read_demands());
  report->summary.files = files;
  const bool trouble = show_trouble(*report, messages);
  if (report->session->dropped_records > 0) {
    messages << "validate: the profiler dropped " << report->session->dropped_records << " records\n";
  }
  const std::string text = request.kernels_table ? kernels_table(*report) : text_in(*report, request.format);
  if (report_file.empty()) out << text;
  else write_text_file(report_file, text);
  return accuracy_answer(report->summary.classes, request.fail_over_percent, messages,
                         trouble ? ExitCode::not_modelled : ExitCode::done);
}

LiveResult measure(const ValidateRequest& request, Measurer& measurer, const std::vector<LiveTask>& tasks,
                   std::ostream& messages, bool terminal) {
  const std::string gpu = gpu_of(measurer.session(), compare_options(request));
  TaskPricer pricer(load_gpu(gpu, request.overrides), request.calibration_file);
  const auto progress = make_progress(messages, terminal);
  const StopOnSignal signals;
  LiveResult result = measure_all(
      measurer, tasks, [&](const LiveTask& task) -> const OpPrediction& { return pricer(task); },
      [] { return StopOnSignal::asked(); }, *progress);
  if (result.recording.session.gpu.empty()) result.recording.session.gpu = load_gpu(gpu).name;
  return result;
}

ExitCode run_repeat(const ValidateRequest& request, const Recording& first, std::ostream& out) {
  constexpr double kUsualLimit = 0.02;
  const double limit = request.fail_over_percent ? *request.fail_over_percent / 100 : kUsualLimit;
  const std::vector<RepeatClass> classes = compare_runs(first, read_recording(request.repeat_file));
  if (classes.empty()) throw BadInput(request.repeat_file + ": expected cases of the other recording, found none");
  const std::string& file = request.report_file.empty() ? request.out_file : request.report_file;
  if (file.empty()) out << repeat_table(classes, limit);
  else write_text_file(file, repeat_table(classes, limit));
  const auto moved = [&](const RepeatClass& r) { return std::abs(r.median_ln) > limit; };
  const bool asked = request.fail_over_percent.has_value();
  return asked && std::any_of(classes.begin(), classes.end(), moved) ? ExitCode::answered_no : ExitCode::done;
}

}  // namespace

void need_writable(const std::string& file) {
  if (file.empty()) return;
  const std::string beside = file + ".partial-" + std::to_string(::getpid());
  const bool opened = std::ofstream(beside).is_open();
  std::error_code ignored;
  std::filesystem::remove(beside, ignored);
  if (!opened) throw BadInput(file + ": cannot be opened for writing");
}

std::string text_in(const Report& report, const std::string& format) {
  if (format == "json") return json_report(report);
  if (format == "csv") return csv_report(report);
  if (format == "html") return html_report(report);
  return table_report(report);
}

ExitCode run_live(const ValidateRequest& request, const MakeMeasurer& make, std::ostream& out, std::ostream& messages,
                  bool terminal) {
  need_measured_set(request.kernels);
  if (request.clock) throw BadInput("--clock: the study says how each case is timed; expected --where clock=steady");
  const std::vector<LiveTask> tasks = live_tasks(study_cases(request), request.kernels, request.alone);
  if (tasks.empty()) throw BadInput("--kernels library: there is no library kernel for any of these cases");
  need_writable(request.out_file);
  need_writable(request.report_file);
  const std::unique_ptr<Measurer> measurer = make();
  const LiveResult result = measure(request, *measurer, tasks, messages, terminal);
  if (!request.out_file.empty()) write_text_file(request.out_file, recording_json(result.recording));
  if (result.end == LiveEnd::interrupted) {
    messages << "validate: interrupted after " << result.recording.cases.size() << " of " << tasks.size() << " cases\n";
  } else if (result.end == LiveEnd::device_lost) {
    messages << "validate: device lost after " << result.recording.cases.size() << " of " << tasks.size()
             << " cases: " << result.device_error << "\n";
  }
  ExitCode code = ExitCode::done;
  if (!result.recording.cases.empty()) {
    code = report_on(result.recording, request,
                     request.out_file.empty() ? std::vector<std::string>{} : std::vector<std::string>{request.out_file},
                     request.report_file, out, messages);
  }
  if (result.end == LiveEnd::device_lost) return ExitCode::no_device;
  return result.end == LiveEnd::interrupted ? ExitCode::interrupted : code;
}

ExitCode run_replay(const ValidateRequest& request, std::ostream& out, std::ostream& messages) {
  need_measured_set(request.kernels);
  if (request.clock) throw BadInput("--clock: the recording says how each case was timed; expected --where clock=...");
  for (const std::string& op : request.ops) {
    if (std::find(op_names().begin(), op_names().end(), op) == op_names().end()) {
      throw BadInput("--ops '" + op + "': expected an operator's name" + did_you_mean(op, op_names()));
    }
  }
  const std::string& file = request.files.front();
  if (!request.repeat_file.empty()) return run_repeat(request, read_recording(file), out);
  return report_on(read_recording(file), request, {file},
                   request.report_file.empty() ? request.out_file : request.report_file, out, messages);
}

}  // namespace plumbline
