// validate: holds predictions against measurements. Flags in, exit code out; the work is in commands.cpp.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "validate/cli/commands.hpp"
#include "validate/cli/sides.hpp"
#include "validate/measure/cuda_measurer.hpp"
#include "validate/measure/cuda_prober.hpp"
#include "validate/measure/cuda_step.hpp"

namespace {

using namespace plumbline;

struct Flags {
  std::vector<std::string> against, fit, fit_power, power_table, fit_bands, coverage, sides, where, sets, free;
  std::string replay, clock, accuracy, kernels = "own";
  bool calibrate = false, unbalanced = false;
  double min_us = 0;
  int gpus = 1;
  std::string step_model, phase, step_dtype;
  std::int64_t batch = 1, context = 1024, prompt = 1024, page = 64;
  ValidateRequest request;
};

void add_inputs(CLI::App& app, Flags& flags) {
  auto* against =
      app.add_option("--against", flags.against, "compare with measured rows (CSV: op,dtype,shape,measured_us)");
  auto* fit = app.add_option("--fit", flags.fit, "fit calibration scalars to measured training rows");
  auto* replay =
      app.add_option("--replay", flags.replay,
                     "compare with a recording that --out wrote; --calibrate: with probes that --probes wrote");
  auto* calibrate =
      app.add_flag("--calibrate", flags.calibrate,
                   "measure the card's scalars, about 90 s, and write a calibration (--out, else stdout)");
  app.add_option("--probes", flags.request.probes_file, "--calibrate: write what the probes found too (JSON)")
      ->needs(calibrate);
  auto* fit_power = app.add_option("--fit-power", flags.fit_power,
                                   "fit energies, voltage and data factors to steady rows (recordings, CSV)");
  auto* power_table = app.add_option("--power-table", flags.power_table,
                                     "time, power and clock of steady rows against the model, by class");
  auto* accuracy = app.add_option("--accuracy", flags.accuracy,
                                  "the README's accuracy table from committed measurements, held against what is "
                                  "allowed (default: data/studies/accuracy.json)")
                       ->expected(0, 1);
  auto* fit_bands = app.add_option("--fit-bands", flags.fit_bands,
                                   "find error bands on the training rows that a list names (data/studies/bands.json)");
  auto* coverage =
      app.add_option("--coverage", flags.coverage, "how many of the list's held-out rows lie in their bands");
  auto* sides = app.add_option("--sides", flags.sides,
                               "which rows may be fitted and which are held out, a line each (CSV with op,shape or "
                               "model,phase; recordings; - for stdin)");
  for (auto* mode : {fit_power, power_table, accuracy, fit_bands, coverage, sides}) {
    for (auto* other : {against, fit, replay, calibrate}) mode->excludes(other);
  }
  accuracy->excludes(fit_power)->excludes(power_table);
  for (auto* mode : {fit_bands, coverage}) mode->excludes(fit_power)->excludes(power_table)->excludes(accuracy);
  fit_bands->excludes(coverage);
  for (auto* mode : {fit_power, power_table, accuracy, fit_bands, coverage}) sides->excludes(mode);
  fit_power->excludes(power_table);
  app.add_option("--least-cap", flags.request.least_cap_percent, "--power-table: rows from this percentage of the cap");
  app.add_option("--most-cap", flags.request.most_cap_percent, "--power-table: rows up to this percentage of the cap");
  against->excludes(fit)->excludes(replay)->excludes(calibrate);
  fit->excludes(replay)->excludes(calibrate);
  app.add_option("--gpu", flags.request.gpu, "GPU name or descriptor file (default: the rows' own gpu column)");
  app.add_option("--set", flags.sets, "override a descriptor number: PATH=VALUE")->allow_extra_args(false);
  app.add_option("--kernels", flags.kernels, "own, library or ideal")
      ->check(CLI::IsMember({"own", "library", "ideal"}))
      ->capture_default_str();
  app.add_option("--clock", flags.clock, "burst or steady (default: each row's own, else burst)")
      ->check(CLI::IsMember({"burst", "steady"}));
  accuracy->excludes(
      app.add_option("--calibration", flags.request.calibration_file, "calibration file instead of the GPU's own"));
  app.add_option("--where", flags.where,
                 "keep rows with COLUMN=VALUE[,VALUE...], COLUMN~TEXT, COLUMN!~TEXT, or a shape key compared: S>=127, "
                 "Hq/Hkv<=16 (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--min-us", flags.min_us, "leave out (--fit: do not train on) rows below this many microseconds")
      ->check(CLI::NonNegativeNumber);
}

void add_outputs(CLI::App& app, Flags& flags) {
  app.add_option("--format", flags.request.format, "table, json, csv or html")
      ->check(CLI::IsMember({"table", "json", "csv", "html"}))
      ->capture_default_str();
  app.add_option("--out", flags.request.out_file,
                 "live: write the measurements (JSON, for --replay); else the report, --fit: the calibration");
  app.add_option("--report", flags.request.report_file, "write the report to a file instead of stdout");
  app.add_option(
      "--rows", flags.request.rows_file,
      "--against, --power-table: write every row with its prediction to a CSV (else: --format csv --report FILE)");
  app.add_option("--fail-over", flags.request.fail_over_percent,
                 "exit 1 when the median error of an op class is above PERCENT");
  app.add_option("--family", flags.request.family, "--fit: kernel family, such as gemm");
  app.add_option("--free", flags.free,
                 "--fit: scalars to fit: NAME[=START[:LOW:HIGH]], or machine.NAME (default: all of the family)")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--source", flags.request.source,
                 "--fit, --fit-power: what the rows are, for the calibration's provenance");
  app.add_flag("--unbalanced", flags.unbalanced, "--fit: do not weigh size classes equally (stacks always are)");
}

void add_card(CLI::App& app, Flags& flags) {
  app.add_option("--ops", flags.request.ops, "card and --replay: only these operators, such as gemm,rmsnorm")
      ->delimiter(',')
      ->allow_extra_args(false);
  auto* quick = app.add_flag("--quick", flags.request.quick,
                             "card: data/studies/quick.csv, below a minute; --calibrate: without energies, 5 s");
  app.add_option("--study", flags.request.studies,
                 "card: measure the cases of this CSV (op,dtype,shape,cache,clock; repeatable; default: train and "
                 "heldout of data/studies)")
      ->allow_extra_args(false)
      ->excludes(quick);
  app.add_flag("--kernels-table", flags.request.kernels_table,
               "card and --replay: print what our kernels achieve against what is demanded, as Markdown");
  app.add_option("--repeat", flags.request.repeat_file,
                 "--replay: how far another recording of the same cases is from it, by class")
      ->needs("--replay");
  app.add_flag("--alone", flags.request.alone, "card: measure our own kernels without the library's beside them");
  app.add_option("--gpus", flags.gpus, "card: how many")->check(CLI::PositiveNumber);
}

void add_steps(CLI::App& app, Flags& flags) {
  auto* step =
      app.add_option("--step", flags.step_model,
                     "card: measure a whole step of this model (a name, or a config.json) on our own kernels in "
                     "one CUDA graph, burst and steady (or as --clock says)");
  app.add_option("--phase", flags.phase, "--step: prefill or decode")
      ->check(CLI::IsMember({"prefill", "decode"}))
      ->needs(step);
  app.add_option("--batch", flags.batch, "--step: sequences")->needs(step)->check(CLI::PositiveNumber);
  app.add_option("--context", flags.context, "--step: tokens already in the KV cache (decode)")
      ->needs(step)
      ->check(CLI::NonNegativeNumber);
  app.add_option("--prompt", flags.prompt, "--step: tokens a sequence (prefill)")
      ->needs(step)
      ->check(CLI::PositiveNumber);
  app.add_option("--page", flags.page, "--step: tokens a page of the KV cache, 0 for none")
      ->needs(step)
      ->check(CLI::NonNegativeNumber);
  app.add_option("--dtype", flags.step_dtype, "--step: bf16 or fp8")
      ->needs(step)
      ->check(CLI::IsMember({"bf16", "fp8"}));
  app.add_flag("--check-steps", flags.request.check_steps,
               "--step, --study of steps: hold operators against references instead of timing them");
}

/// The step that the flags name, in both clock modes or the one asked for.
void read_step(Flags& flags) {
  if (flags.step_model.empty()) return;
  if (flags.phase.empty()) throw BadInput("--step: expected --phase prefill or decode");
  StepCase what;
  what.model = flags.step_model;
  Workload& w = what.workload;
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
  for (const ClockMode clock : {ClockMode::burst, ClockMode::steady}) {
    if (flags.request.clock && *flags.request.clock != clock) continue;
    what.clock = clock;
    flags.request.steps.push_back(what);
  }
}

bool wants_steps(const ValidateRequest& request) {
  return !request.steps.empty() || (!request.studies.empty() && is_step_study(read_text_file(request.studies.front())));
}

void read_texts(Flags& flags) {
  static const std::map<std::string, KernelSet> sets{
      {"own", KernelSet::own}, {"library", KernelSet::library}, {"ideal", KernelSet::ideal}};
  ValidateRequest& request = flags.request;
  request.kernels = sets.at(flags.kernels);
  if (!flags.clock.empty()) request.clock = read_clock_mode(flags.clock, "--clock");
  for (const std::string& text : flags.where) request.where.push_back(parse_row_filter(text));
  for (const std::string& text : flags.sets) request.overrides.push_back(parse_override(text));
  for (const std::string& text : flags.free) request.free.push_back(parse_free_scalar(text));
  request.at_least = flags.min_us * units::us;
  request.balance = !flags.unbalanced;
}

ExitCode run(Flags& flags, bool accuracy) {
  read_texts(flags);
  if (!flags.request.rows_file.empty() && flags.against.empty() && flags.power_table.empty()) {
    throw BadInput("--rows: expected --against or --power-table, whose rows it writes");
  }
  if (accuracy) {
    flags.request.files = {flags.accuracy};
    return run_accuracy(flags.request, std::cout, std::cerr);
  }
  if (!flags.sides.empty()) {
    write_sides(flags.sides, std::cin, std::cout);
    return ExitCode::done;
  }
  read_step(flags);
  if (flags.calibrate) {
    if (!flags.replay.empty()) flags.request.files = {flags.replay};
    return run_calibrate(flags.request, run_cuda_probes, std::cout, std::cerr);
  }
  if (!flags.replay.empty()) {
    flags.request.files = {flags.replay};
    if (is_step_recording(read_text_file(flags.replay))) return run_step_replay(flags.request, std::cout, std::cerr);
    return run_replay(flags.request, std::cout, std::cerr);
  }
  if (!flags.fit.empty()) {
    flags.request.files = flags.fit;
    return run_fit(flags.request, std::cout, std::cerr);
  }
  if (!flags.fit_power.empty()) {
    flags.request.files = flags.fit_power;
    return run_fit_power(flags.request, std::cout, std::cerr);
  }
  if (!flags.power_table.empty()) {
    flags.request.files = flags.power_table;
    return run_power_table(flags.request, std::cout);
  }
  if (!flags.fit_bands.empty()) {
    flags.request.files = flags.fit_bands;
    return run_fit_bands(flags.request, std::cout, std::cerr);
  }
  if (!flags.coverage.empty()) {
    flags.request.files = flags.coverage;
    return run_coverage(flags.request, std::cout);
  }
  if (!flags.against.empty()) {
    flags.request.files = flags.against;
    return run_against(flags.request, std::cout, std::cerr);
  }
  if (flags.gpus > 1) {
    make_cuda_measurer();  // without a card that is what is wrong
    throw NotModelled("--gpus: collectives between GPUs are not measured yet; expected 1");
  }
  if (wants_steps(flags.request)) return run_steps(flags.request, make_cuda_step_measurer, std::cout, std::cerr);
  return run_live(flags.request, make_cuda_measurer, std::cout, std::cerr, ::isatty(STDERR_FILENO) == 1);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Holds predicted operator times against measured ones"};
  app.name("validate");
  Flags flags;
  add_inputs(app, flags);
  add_outputs(app, flags);
  add_card(app, flags);
  add_steps(app, flags);
  app.footer(
      "Without --against, --fit or --replay the card at hand is measured; Ctrl-C stops after the present case and\n"
      "reports on what there is.\n"
      "Exit codes: 0 done, 1 a class is worse than --fail-over, 2 bad input, 3 some rows not measured or modelled,\n"
      "4 no device or device error, 130 interrupted, 70 our bug.");
  try {
    app.parse(argc, argv);
    const ExitCode code = run(flags, app.count("--accuracy") > 0);
    std::cout.flush();
    return static_cast<int>(code);
  } catch (const CLI::ParseError& error) {
    // CLI11 has codes of its own (105, ...) and long messages; the contract has 2 and one line. 0 is --help.
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << "validate: " << error.what() << "\n";
    return static_cast<int>(ExitCode::bad_input);
  } catch (const Error& error) {
    std::cerr << "validate: " << error.what() << "\n";
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::cerr << "validate: internal error: " << error.what() << "\n";
    return static_cast<int>(ExitCode::our_bug);
  }
}
