// validate: holds predictions against measurements. Flags in, exit code out; what can be asked is the table of
// modes.cpp.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <string>

#include "arch/error.hpp"
#include "validate/cli/modes.hpp"
#include "validate/measure/cuda_measurer.hpp"
#include "validate/measure/cuda_prober.hpp"
#include "validate/measure/cuda_step.hpp"

namespace {

using namespace plumbline;

void add_modes(CLI::App& app, Flags& flags) {
  app.add_option("--against", flags.against, "compare with measured rows (CSV: op,dtype,shape,measured_us)");
  app.add_option("--replay", flags.replay,
                 "compare with a recording that --out wrote; --calibrate: with probes that --probes wrote");
  app.add_option("--accuracy", flags.accuracy,
                 "the README's accuracy table from committed measurements, held against what is allowed (default: "
                 "data/studies/accuracy.json)")
      ->expected(0, 1);
  app.add_option("--coverage", flags.coverage, "how many of the list's held-out rows lie in their bands");
  app.add_option("--power-table", flags.power_table,
                 "time, power and clock of steady rows against the model, by class");
  app.add_option("--sides", flags.sides,
                 "which rows may be fitted and which are held out, a line each (CSV with op,shape or model,phase; "
                 "recordings; - for stdin)");
  app.add_flag("--calibrate")
      ->description("measure the card's scalars, about 90 s, and write a calibration (--out, else stdout)");
  app.add_option("--fit", flags.fit, "fit calibration scalars to measured training rows");
  app.add_option("--fit-power", flags.fit_power,
                 "fit energies, voltage and data factors to steady rows (recordings, CSV)");
  app.add_option("--fit-bands", flags.fit_bands,
                 "find error bands on the training rows that a list names (data/studies/bands.json)");
}

void add_inputs(CLI::App& app, Flags& flags) {
  app.add_option("--gpu", flags.gpu, "GPU name or descriptor file (default: the rows' own gpu column)");
  app.add_option("--set", flags.sets, "override a descriptor number: PATH=VALUE")->allow_extra_args(false);
  app.add_option("--kernels", flags.kernels, "own, library or ideal")
      ->check(CLI::IsMember({"own", "library", "ideal"}))
      ->capture_default_str();
  app.add_option("--clock", flags.clock, "burst or steady (default: each row's own, else burst)")
      ->check(CLI::IsMember({"burst", "steady"}));
  app.add_option("--calibration", flags.calibration, "calibration file instead of the GPU's own");
  app.add_option("--where", flags.where,
                 "keep rows with COLUMN=VALUE[,VALUE...], COLUMN~TEXT, COLUMN!~TEXT, or a shape key compared: S>=127, "
                 "Hq/Hkv<=16 (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--min-us", flags.min_us, "leave out (--fit: do not train on) rows below this many microseconds")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--least-cap", flags.least_cap_percent, "--power-table: rows from this percentage of the cap");
  app.add_option("--most-cap", flags.most_cap_percent, "--power-table: rows up to this percentage of the cap");
}

void add_outputs(CLI::App& app, Flags& flags) {
  app.add_option("--format", flags.format, "table, json, csv or html")
      ->check(CLI::IsMember({"table", "json", "csv", "html"}))
      ->capture_default_str();
  app.add_option("--out", flags.out,
                 "live: write the measurements (JSON, for --replay); else the report, --fit: the calibration");
  app.add_option("--report", flags.report, "write the report to a file instead of stdout");
  app.add_option(
      "--rows", flags.rows,
      "--against, --power-table: write every row with its prediction to a CSV (else: --format csv --report FILE)");
  app.add_option("--fail-over", flags.fail_over_percent,
                 "exit 1 when the median error of an op class is above PERCENT");
  app.add_option("--probes", flags.probes, "--calibrate: write what the probes found too (JSON)");
  app.add_option("--family", flags.family, "--fit: kernel family, such as gemm");
  app.add_option("--free", flags.free,
                 "--fit: scalars to fit: NAME[=START[:LOW:HIGH]], or machine.NAME (default: all of the family)")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--source", flags.source, "--fit, --fit-power: what the rows are, for the calibration's provenance");
  app.add_flag("--unbalanced")->description("--fit: do not weigh size classes equally (stacks always are)");
}

void add_card(CLI::App& app, Flags& flags) {
  app.add_option("--ops", flags.ops, "card and --replay: only these operators, such as gemm,rmsnorm")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--quick")->description(
      "card: data/studies/quick.csv, below a minute; --calibrate: without energies, 5 s");
  app.add_option("--study", flags.studies,
                 "card: measure the cases of this CSV (op,dtype,shape,cache,clock; repeatable; default: train and "
                 "heldout of data/studies)")
      ->allow_extra_args(false);
  app.add_flag("--kernels-table")
      ->description("card and --replay: print what our kernels achieve against what is demanded, as Markdown");
  app.add_option("--repeat", flags.repeat,
                 "--replay: how far another recording of the same cases is from it, by class");
  app.add_flag("--alone")->description("card: measure our own kernels without the library's beside them");
  app.add_option("--gpus", flags.gpus, "card: how many")->check(CLI::PositiveNumber);
}

void add_steps(CLI::App& app, Flags& flags) {
  app.add_option("--step", flags.step_model,
                 "card: measure a whole step of this model (a name, or a config.json) on our own kernels in "
                 "one CUDA graph, burst and steady (or as --clock says)");
  app.add_option("--phase", flags.phase, "--step: prefill or decode")->check(CLI::IsMember({"prefill", "decode"}));
  app.add_option("--batch", flags.batch, "--step: sequences")->check(CLI::PositiveNumber);
  app.add_option("--context", flags.context, "--step: tokens already in the KV cache (decode)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--prompt", flags.prompt, "--step: tokens a sequence (prefill)")->check(CLI::PositiveNumber);
  app.add_option("--page", flags.page, "--step: tokens a page of the KV cache, 0 for none")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--dtype", flags.step_dtype, "--step: bf16 or fp8")->check(CLI::IsMember({"bf16", "fp8"}));
  app.add_flag("--check-steps")
      ->description("--step, --study of steps: hold operators against references instead of timing them");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Holds predicted operator times against measured ones"};
  app.name("validate");
  Flags flags;
  add_modes(app, flags);
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
    for (const CLI::Option* option : app.get_options()) {
      if (option->count() > 0) flags.given.insert(option->get_name());
    }
    const Surroundings around{make_cuda_measurer, make_cuda_step_measurer,     run_cuda_probes, std::cin, std::cout,
                              std::cerr,          ::isatty(STDERR_FILENO) == 1};
    const ExitCode code = mode_of(flags).run(flags, around);
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
