#include "validate/cli/live.hpp"

#include <map>
#include <ostream>
#include <utility>

#include "arch/files.hpp"
#include "validate/compare/report.hpp"
#include "validate/measure/live.hpp"
#include "validate/record/study.hpp"

namespace plumbline {

namespace {

/// Prices tasks on the machines of one card.
class TaskPricer {
 public:
  TaskPricer(MachineKey card, StackChoice stack)
      : key_(std::move(card)),
        stack_(std::move(stack)),
        kernels_(kernels_of(stack_)),
        prediction_(std::make_unique<OpPrediction>()) {}

  const OpPrediction& operator()(const LiveTask& task) {
    key_.options.stack = task.kernels == kernels_ ? stack_ : usual_stack(task.kernels);
    key_.options.clock = task.what.clock;
    const PredictOptions options{.warm = task.what.cache == CacheState::warm};
    predictor_.predict(task.what.op, machines().get(key_), *prediction_, options);
    return *prediction_;
  }

 private:
  MachineKey key_;
  StackChoice stack_;
  KernelSet kernels_;
  std::unique_ptr<OpPrediction> prediction_;
  Predictor predictor_;
};

/// The cases that are asked for; a list of several files holds each case once.
std::vector<StudyCase> study_cases(const LiveRequest& request) {
  std::vector<std::string> files = request.studies;
  if (files.empty() && request.quick) files = {study_file("quick")};
  if (files.empty()) files = {study_file("train"), study_file("heldout")};
  std::vector<StudyCase> cases;
  std::map<std::string, std::string> seen;
  for (const std::string& file : files) {
    for (StudyCase& what : read_study(file)) {
      if (!seen.emplace(case_key(what), what.place).second) continue;
      if (keeps_case(request.compared.rows.where, what, "")) cases.push_back(std::move(what));
    }
  }
  if (cases.empty()) throw BadInput("--where: no case of the studies is left");
  return cases_of_ops(std::move(cases), request.compared.rows.ops);
}

LiveResult measure(const CaseReportRequest& asked, Measurer& measurer, const std::vector<LiveTask>& tasks,
                   std::ostream& messages, bool terminal) {
  const AskedCard& card = asked.card;
  CompareOptions options;
  options.gpu = card.gpu;
  const MeasuringSession before = measurer.session();
  const std::string gpu = gpu_of(before, options);
  warn_of_shared_card(before, messages);
  MachineKey key;  // a variable: GCC 12 takes a braced temporary's strings for uninitialized where they are moved from
  key.gpu = gpu;
  key.calibration_file = card.calibration_file;
  key.overrides = card.overrides;
  TaskPricer pricer(key, asked.stack);
  const auto progress = make_progress(messages, terminal);
  const StopOnSignal signals;
  LiveResult result = measure_all(
      measurer, tasks, [&](const LiveTask& task) -> const OpPrediction& { return pricer(task); },
      [] { return StopOnSignal::asked(); }, *progress);
  if (before.other_processes == 0) warn_of_shared_card(result.recording.session, messages);  // they came later
  if (result.recording.session.gpu.empty()) result.recording.session.gpu = machines().gpu(gpu).name;
  return result;
}

}  // namespace

ExitCode run_live(const LiveRequest& request, const MakeMeasurer& make, std::ostream& out, std::ostream& messages,
                  bool terminal) {
  const CaseReportRequest& compared = request.compared;
  const KernelSet kernels = need_measured_set(compared.stack);
  if (request.quick && !request.studies.empty()) throw BadInput("--study: --quick is a study of its own");
  const std::vector<LiveTask> tasks = live_tasks(study_cases(request), kernels, request.alone);
  if (tasks.empty()) throw BadInput("--stack, --kernels: there is no library kernel for any of these cases");
  need_writable(request.out_file);
  need_writable(compared.report.file);
  const std::unique_ptr<Measurer> measurer = make();
  const LiveResult result = measure(compared, *measurer, tasks, messages, terminal);
  if (!request.out_file.empty()) write_text_file(request.out_file, recording_json(result.recording));
  if (result.end == LiveEnd::interrupted) {
    messages << "validate: interrupted after " << result.recording.cases.size() << " of " << tasks.size() << " cases\n";
  } else if (result.end == LiveEnd::device_lost) {
    messages << "validate: device lost after " << result.recording.cases.size() << " of " << tasks.size()
             << " cases: " << result.device_error << "\n";
  }
  ExitCode code = ExitCode::done;
  if (!result.recording.cases.empty()) {
    std::vector<std::string> files;
    if (!request.out_file.empty()) files.push_back(request.out_file);
    code = report_on(result.recording, compared, files, out, messages);
  }
  if (result.end == LiveEnd::device_lost) return ExitCode::no_device;
  return result.end == LiveEnd::interrupted ? ExitCode::interrupted : code;
}

}  // namespace plumbline
