#include "validate/cli/modes.hpp"

#include <algorithm>

#include "arch/files.hpp"
#include "model/words.hpp"
#include "validate/cli/accuracy.hpp"
#include "validate/cli/against.hpp"
#include "validate/cli/bands.hpp"
#include "validate/cli/fit.hpp"
#include "validate/cli/power.hpp"
#include "validate/cli/sides.hpp"

namespace plumbline {

namespace {

// --- what modes share -----------------------------------------------------------------------------------------------

AskedCard card_of(const Flags& flags) {
  AskedCard card{flags.gpu, {}, flags.calibration};
  for (const std::string& text : flags.sets) card.overrides.push_back(parse_override(text));
  return card;
}

AskedReport report_of(const Flags& flags) { return {flags.format, flags.out, flags.report, flags.fail_over_percent}; }

AskedRows rows_of(const Flags& flags) {
  AskedRows rows;
  for (const std::string& text : flags.where) rows.where.push_back(parse_row_filter(text));
  rows.at_least = flags.min_us * units::us;
  rows.ops = flags.ops;
  return rows;
}

KernelSet kernels_of(const Flags& flags) {
  for (const Word<KernelSet>& word : kKernelSetWords) {
    if (word.text == flags.kernels) return word.value;
  }
  throw BadInput("--kernels: expected own, library or ideal, found '" + flags.kernels + "'");
}

std::optional<ClockMode> clock_of(const Flags& flags) {
  if (flags.clock.empty()) return std::nullopt;
  return read_clock_mode(flags.clock, "--clock");
}

CaseReportRequest cases_of(const Flags& flags) {
  return {card_of(flags), report_of(flags), rows_of(flags), kernels_of(flags), flags.has("--kernels-table")};
}

// --- one function a mode --------------------------------------------------------------------------------------------

ExitCode accuracy(const Flags& flags, const Surroundings& around) {
  return run_accuracy({flags.accuracy, report_of(flags)}, around.out, around.messages);
}

ExitCode sides(const Flags& flags, const Surroundings& around) {
  write_sides(flags.sides, around.in, around.out);
  return ExitCode::done;
}

ExitCode calibrate(const Flags& flags, const Surroundings& around) {
  return run_calibrate({flags.replay, flags.has("--quick"), card_of(flags), flags.probes, flags.out}, around.probes,
                       around.out, around.messages);
}

ExitCode replay(const Flags& flags, const Surroundings& around) {
  if (is_step_recording(read_text_file(flags.replay))) {
    return run_step_replay({flags.replay, card_of(flags), report_of(flags)}, around.out, around.messages);
  }
  return run_replay({flags.replay, flags.repeat, cases_of(flags)}, around.out, around.messages);
}

ExitCode fit(const Flags& flags, const Surroundings& around) {
  FitRequest request;
  request.files = flags.fit;
  request.card = card_of(flags);
  request.rows = rows_of(flags);
  request.kernels = kernels_of(flags);
  request.clock = clock_of(flags);
  request.family = flags.family;
  for (const std::string& text : flags.free) request.free.push_back(parse_free_scalar(text));
  request.balance = !flags.has("--unbalanced");
  request.source = flags.source;
  request.out_file = flags.out;
  return run_fit(request, around.out, around.messages);
}

ExitCode fit_power(const Flags& flags, const Surroundings& around) {
  return run_fit_power({flags.fit_power, card_of(flags), flags.min_us * units::us, flags.source, flags.out}, around.out,
                       around.messages);
}

ExitCode power_table(const Flags& flags, const Surroundings& around) {
  return run_power_table({flags.power_table, card_of(flags), flags.min_us * units::us, flags.least_cap_percent,
                          flags.most_cap_percent, flags.rows},
                         around.out);
}

ExitCode fit_bands(const Flags& flags, const Surroundings& around) {
  return run_fit_bands({flags.fit_bands, flags.gpu, flags.calibration, flags.out}, around.out, around.messages);
}

ExitCode coverage(const Flags& flags, const Surroundings& around) {
  return run_coverage({flags.coverage, flags.calibration}, around.out);
}

ExitCode against(const Flags& flags, const Surroundings& around) {
  return run_against(
      {flags.against, card_of(flags), report_of(flags), rows_of(flags), kernels_of(flags), clock_of(flags), flags.rows},
      around.out, around.messages);
}

/// The step that the flags name, in both clock modes or the one asked for.
std::vector<StepCase> steps_of(const Flags& flags) {
  if (flags.step_model.empty()) return {};
  StepCase what;
  what.model = flags.step_model;
  Workload& w = what.workload;
  if (flags.phase != "prefill" && flags.phase != "decode") throw BadInput("--step: expected --phase prefill or decode");
  w.phase = flags.phase == "decode" ? Phase::decode : Phase::prefill;
  w.batch = flags.batch;
  w.context = flags.context;
  w.prompt = flags.prompt;
  if (w.phase == Phase::decode) w.page = flags.page;
  if (!flags.step_dtype.empty()) {
    w.precision = *parse_precision(flags.step_dtype);
    w.precision_given = true;
  }
  what.study = what.place = "flags";
  std::vector<StepCase> steps;
  for (const ClockMode clock : {ClockMode::burst, ClockMode::steady}) {
    what.clock = clock;
    if (clock_of(flags).value_or(clock) == clock) steps.push_back(what);
  }
  return steps;
}

ExitCode steps(const Flags& flags, const Surroundings& around) {
  if (flags.has("--step") && flags.has("--study")) throw BadInput("--study: --step is a study of its own");
  return run_steps({steps_of(flags), flags.studies, flags.has("--check-steps"), card_of(flags), report_of(flags)},
                   around.step_measurer, around.out, around.messages);
}

ExitCode live(const Flags& flags, const Surroundings& around) {
  if (flags.gpus > 1) {
    around.measurer();  // without a card that is what is wrong
    throw NotModelled("--gpus: collectives between GPUs are not measured yet; expected 1");
  }
  return run_live({flags.studies, flags.has("--quick"), flags.has("--alone"), cases_of(flags)}, around.measurer,
                  around.out, around.messages, around.terminal);
}

/// A list of steps asks for the mode of steps without its flag.
bool asks_for_steps(const Flags& flags) {
  return flags.has("--step") || (!flags.studies.empty() && is_step_study(read_text_file(flags.studies.front())));
}

}  // namespace

const std::vector<Mode>& modes() {
  static const std::vector<Mode> kModes{
      {"--accuracy", {"--format", "--out", "--report"}, accuracy},
      {"--sides", {}, sides},
      {"--calibrate", {"--replay", "--quick", "--probes", "--gpu", "--set", "--calibration", "--out"}, calibrate},
      {"--replay",
       {"--repeat", "--ops", "--where", "--min-us", "--kernels", "--kernels-table", "--gpu", "--set", "--calibration",
        "--format", "--out", "--report", "--fail-over"},
       replay},
      {"--fit",
       {"--gpu", "--set", "--calibration", "--kernels", "--clock", "--where", "--min-us", "--family", "--free",
        "--unbalanced", "--source", "--out"},
       fit},
      {"--fit-power", {"--gpu", "--set", "--calibration", "--min-us", "--source", "--out"}, fit_power},
      {"--power-table",
       {"--gpu", "--set", "--calibration", "--min-us", "--least-cap", "--most-cap", "--rows"},
       power_table},
      {"--fit-bands", {"--gpu", "--calibration", "--out"}, fit_bands},
      {"--coverage", {"--calibration"}, coverage},
      {"--against",
       {"--gpu", "--set", "--calibration", "--kernels", "--clock", "--where", "--min-us", "--format", "--out",
        "--report", "--rows", "--fail-over"},
       against},
      {"--step",
       {"--study", "--phase", "--batch", "--context", "--prompt", "--page", "--dtype", "--check-steps", "--clock",
        "--gpu", "--set", "--calibration", "--format", "--out", "--report", "--fail-over"},
       steps},
      {"",
       {"--study", "--quick", "--alone", "--gpus", "--ops", "--where", "--min-us", "--kernels", "--kernels-table",
        "--gpu", "--set", "--calibration", "--format", "--out", "--report", "--fail-over"},
       live}};
  return kModes;
}

const Mode& mode_of(const Flags& flags) {
  const auto asked = [&](const Mode& mode) {
    return mode.flag.empty() || flags.has(mode.flag) || (mode.flag == "--step" && asks_for_steps(flags));
  };
  const Mode& mode = *std::find_if(modes().begin(), modes().end(), asked);
  for (const std::string& flag : flags.given) {
    if (flag == mode.flag || std::find(mode.takes.begin(), mode.takes.end(), flag) != mode.takes.end()) continue;
    std::string taken;
    for (const std::string_view other : mode.takes) taken += (taken.empty() ? "" : ", ") + std::string(other);
    throw BadInput(flag + ": " + (mode.flag.empty() ? "measuring the card" : std::string(mode.flag)) +
                   " does not take it; expected " + (taken.empty() ? "no other flag" : "one of " + taken));
  }
  return mode;
}

}  // namespace plumbline
