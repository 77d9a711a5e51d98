#include "validate/cli/steps.hpp"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <sstream>

#include "arch/files.hpp"
#include "validate/measure/live.hpp"
#include "validate/printed.hpp"
#include "validate/step/step_report.hpp"

namespace plumbline {
namespace {

std::vector<StepCase> cases_asked(const StepsRequest& request) {
  if (!request.steps.empty()) return request.steps;
  std::vector<StepCase> cases;
  for (const std::string& file : request.studies) {
    for (StepCase& what : parse_step_study(read_text_file(file), file)) cases.push_back(std::move(what));
  }
  return cases;
}

/// The card that a session ran on, or that is asked for, as machines are asked for.
MachineKey key_of(const MeasuringSession& session, const AskedCard& card) {
  if (card.gpu.empty() && session.gpu.empty()) {
    throw BadInput("card '" + session.card + "': no descriptor is known for it; expected --gpu NAME");
  }
  return {card.gpu.empty() ? session.gpu : card.gpu, {}, card.calibration_file, card.overrides};
}

/// Steps priced on the machines of one card.
class StepPricer {
 public:
  explicit StepPricer(MachineKey card) : key_(std::move(card)) {}

  std::unique_ptr<StepPrediction> operator()(const StepCase& what) {
    key_.options.stack = "own";  // steps run our kernels
    key_.options.clock = what.clock;
    auto step = std::make_unique<StepPrediction>();
    predictor_.predict(step_llm(what), what.workload, machines().get(key_), RunOptions{}, *step);
    return step;
  }

 private:
  MachineKey key_;
  Predictor predictor_;
};

ExitCode report_steps(const StepRecording& recording, const AskedCard& card, const AskedReport& asked,
                      std::ostream& out, std::ostream& messages) {
  if (asked.format != "table" && asked.format != "csv") {
    throw BadInput("--format: expected table or csv for a recording of steps, found '" + asked.format + "'");
  }
  const WholeStepReport report = compare_steps(recording, key_of(recording.session, card));
  const std::string text = asked.format == "csv" ? step_csv(report) : step_table(report);
  write_or_print(asked, text, out);
  std::vector<std::string> trouble;
  for (const StepRow& row : report.rows) {
    if (!row.good()) trouble.push_back(step_text(row.measured.what) + ": " + row.error);
  }
  show_trouble(trouble, report.rows.size(), "steps could not be measured or priced", messages);
  for (const StepRow& row : report.rows) {
    if (!row.good()) continue;
    if (asked.fail_over_percent && std::abs(row.time_error()) > *asked.fail_over_percent / 100) {
      messages << "validate: " << step_text(row.measured.what) << ": off by "
               << percent_number(std::abs(row.time_error())) << " %\n";
      return ExitCode::answered_no;
    }
  }
  return trouble.empty() ? ExitCode::done : ExitCode::not_modelled;
}

ExitCode check_steps(StepMeasurer& measurer, const std::vector<StepCase>& cases, StepPricer& price,
                     const AskedReport& asked, std::ostream& out) {
  std::ostringstream text;
  bool good = true;
  for (const StepCase& what : cases) {
    const auto priced = price(what);
    text << step_text(what) << "\n";
    for (const StepOpCheck& check : measurer.check({what, priced.get()})) {
      text << "  layer " << check.layer << " " << check.name << ": " << percent_number(check.error) << " % of "
           << percent_number(check.bound) << " %" << (check.good() ? "" : "  WRONG") << "\n";
      good = good && check.good();
    }
  }
  write_or_print(asked, text.str(), out);
  return good ? ExitCode::done : ExitCode::answered_no;
}

/// Decode hardly depends on the clock: its operators are traced once where a step is asked for in both modes.
bool traced_before(const std::vector<StepMeasurement>& steps, std::size_t i) {
  if (steps[i].what.workload.phase != Phase::decode) return false;
  StepCase what = steps[i].what;
  return std::any_of(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(i), [&](const StepMeasurement& other) {
    what.clock = other.what.clock;
    return !other.ops.empty() && step_text(other.what) == step_text(what);
  });
}

/// All spans first, then, with the profiler attached, the operators' own times.
StepRecording measure_steps(StepMeasurer& measurer, const std::vector<StepCase>& cases, StepPricer& price,
                            std::ostream& messages) {
  StepRecording recording;
  const StopOnSignal signals;
  std::vector<std::unique_ptr<StepPrediction>> priced;
  for (const StepCase& what : cases) {
    if (StopOnSignal::asked()) break;
    priced.push_back(price(what));
    recording.steps.push_back(measurer.measure({what, priced.back().get()}));
    const StepMeasurement& m = recording.steps.back();
    messages << step_text(what) << ": " << (m.fault.empty() ? printed("%.1f us", m.time.in(units::us)) : m.fault)
             << std::endl;
  }
  for (std::size_t i = 0; i < recording.steps.size() && !StopOnSignal::asked(); ++i) {
    if (traced_before(recording.steps, i)) continue;
    measurer.trace({recording.steps[i].what, priced[i].get()}, recording.steps[i]);
    const std::string& fault = recording.steps[i].fault;
    messages << step_text(recording.steps[i].what) << ": " << (fault.empty() ? "traced" : fault) << std::endl;
  }
  recording.session = measurer.session();
  warn_of_shared_card(recording.session, messages);
  return recording;
}

}  // namespace

Workload workload_of(const Flags& flags) {
  Workload w;
  if (flags.phase.empty()) throw BadInput("--phase: expected prefill, decode or train, found nothing");
  const bool decode = flags.phase == "decode";
  if (decode) refuse(flags, {"--prompt"}, "with --phase decode");
  else refuse(flags, {"--context", "--page"}, "with --phase " + flags.phase);
  w.phase = decode ? Phase::decode : flags.phase == "train" ? Phase::train : Phase::prefill;
  w.batch = flags.batch;
  w.context = flags.context;
  w.prompt = flags.prompt;
  if (!flags.dtype.empty()) {
    w.precision = *parse_precision(flags.dtype);
    w.precision_given = true;
  }
  w.parallel.tensor = flags.tensor;
  w.parallel.data = flags.replicas;
  w.parallel.sequence = flags.has("--sp");
  if (w.parallel.data > 1 && w.phase != Phase::train) throw BadInput("--dp: expected it with --phase train alone");
  return w;
}

std::vector<StepCase> steps_of(const Flags& flags) {
  if (flags.operands.empty()) return {};
  StepCase what;
  what.model = flags.operands.front();
  what.workload = workload_of(flags);
  if (what.workload.phase == Phase::decode) what.workload.page = flags.page;
  what.layers = flags.layers;
  what.study = what.place = "flags";
  std::vector<StepCase> steps;
  for (const ClockMode clock : {ClockMode::burst, ClockMode::steady}) {
    what.clock = clock;
    if (flags.clock.value_or(clock) == clock) steps.push_back(what);
  }
  return steps;
}

ExitCode run_steps(const StepsRequest& request, const MakeStepMeasurer& make, std::ostream& out,
                   std::ostream& messages) {
  const std::vector<StepCase> cases = cases_asked(request);
  std::int64_t gpus = 1;
  for (const StepCase& what : cases) {  // before the card is taken
    step_llm(what);
    gpus = std::max(gpus, what.workload.parallel.ranks());
  }
  need_writable(request.out_file);
  need_writable(request.report.file);
  const std::unique_ptr<StepMeasurer> measurer = make(gpus);
  StepPricer price(key_of(measurer->session(), request.card));
  if (request.check) return check_steps(*measurer, cases, price, request.report, out);
  const StepRecording recording = measure_steps(*measurer, cases, price, messages);
  if (!request.out_file.empty()) write_text_file(request.out_file, step_recording_json(recording));
  if (recording.steps.size() < cases.size()) return ExitCode::interrupted;
  return report_steps(recording, request.card, request.report, out, messages);
}

ExitCode run_step_replay(const StepReplayRequest& request, std::ostream& out, std::ostream& messages) {
  const StepRecording recording = parse_step_recording(read_text_file(request.file), request.file);
  return report_steps(recording, request.card, request.report, out, messages);
}

}  // namespace plumbline
