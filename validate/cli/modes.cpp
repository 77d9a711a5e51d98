#include "validate/cli/modes.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "arch/files.hpp"
#include "model/words.hpp"
#include "validate/cli/accuracy.hpp"
#include "validate/cli/bands.hpp"
#include "validate/cli/compare.hpp"
#include "validate/cli/fit.hpp"
#include "validate/cli/links.hpp"
#include "validate/cli/power.hpp"
#include "validate/cli/sides.hpp"
#include "validate/record/model_row.hpp"
#include "validate/timeline/timeline.hpp"

namespace plumbline {

namespace {

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
constexpr std::int64_t kMostGpus = 1024;  // more than any group has

// --- what commands share --------------------------------------------------------------------------------------------

AskedCard card_of(const Flags& flags) { return {flags.gpu, flags.sets, flags.calibration}; }

AskedReport report_of(const Flags& flags) { return {flags.format, flags.report, flags.fail_over_percent}; }

AskedRows rows_of(const Flags& flags) { return {flags.where, flags.min_time, flags.ops}; }

/// The stack that the flags name, else `usual`.
StackChoice stack_of(const Flags& flags, const char* usual) {
  StackChoice choice(flags.stack.empty() ? std::string(usual) : flags.stack);
  choice.kernels = flags.kernels;
  choice.attention = flags.attention;
  choice.collective = flags.way.collective;
  choice.protocol = flags.way.protocol;
  return choice;
}

/// Our own kernels are what a card measures here.
CaseReportRequest cases_of(const Flags& flags) {
  return {card_of(flags), report_of(flags), rows_of(flags), stack_of(flags, "own"), flags.has("--kernels-table")};
}

/// The file that is named, or one of data/studies.
std::string list_of(const Flags& flags, const char* usual) {
  return flags.operands.empty() ? data_folder() + "/studies/" + usual : flags.operands.front();
}

// --- one function a command -----------------------------------------------------------------------------------------

/// A profiler's timeline of the step that the flags say.
ExitCode compare_step(const Flags& flags, const StackChoice& stack, const Surroundings& around) {
  const std::string& file = flags.operands.front();
  if (flags.operands.size() > 1) throw BadInput("expected one file, as '" + file + "' is a profiler's timeline");
  refuse(flags, {"--where", "--ops", "--min-us", "--rows"}, "for a profiler's timeline");
  if (flags.model.empty()) throw BadInput("--model: expected the model whose steps '" + file + "' is of");
  if (flags.format == "html") throw BadInput("--format: expected table, json or csv for a profiler's timeline");
  ModelRow step;
  step.model = flags.model;
  step.phase = flags.phase;
  step.workload = workload_of(flags);
  step.workload.page = flags.has("--page") ? flags.page : 0;
  step.layers = flags.layers;
  return run_timeline({file, card_of(flags), report_of(flags), stack, flags.clock, step, flags.out}, around.out,
                      around.messages);
}

ExitCode compare(const Flags& flags, const Surroundings& around) {
  const StackChoice stack = stack_of(flags, "trt-llm");
  if (std::any_of(flags.operands.begin(), flags.operands.end(), is_timeline)) return compare_step(flags, stack, around);
  refuse(flags, {kStepFlags.begin(), kStepFlags.end()}, "where no file is a profiler's timeline");
  refuse(flags, {"--model", "--out"}, "where no file is a profiler's timeline");
  const bool named = flags.has("--stack") || flags.has("--attention");
  if (std::any_of(flags.operands.begin(), flags.operands.end(), [](const std::string& file) {
        return !file.ends_with(".json") && is_model_rows(read_text_file(file), file);
      })) {
    refuse(flags, {"--ops"}, "for rows of whole models");
    return run_compare_models(
        {flags.operands, card_of(flags), report_of(flags), rows_of(flags), stack, !named, flags.clock, flags.rows},
        around.out, around.messages);
  }
  return run_compare(
      {flags.operands, card_of(flags), report_of(flags), rows_of(flags), stack, !named, flags.clock, flags.rows},
      around.out, around.messages);
}

ExitCode replay(const Flags& flags, const Surroundings& around) {
  const std::string& file = flags.operands.front();
  if (is_step_recording(read_text_file(file))) {
    refuse(flags, {"--where", "--ops", "--min-us", "--stack", "--kernels", "--kernels-table", "--repeat"},
           "for a recording of steps, '" + file + "'");
    return run_step_replay({file, card_of(flags), report_of(flags)}, around.out, around.messages);
  }
  if (flags.has("--kernels-table")) refuse(flags, {"--format"}, "with --kernels-table, which is Markdown");
  if (flags.has("--repeat")) {
    refuse(
        flags,
        {"--where", "--ops", "--min-us", "--gpu", "--set", "--calibration", "--stack", "--kernels", "--kernels-table"},
        "with --repeat, which holds two recordings against each other");
    return run_repeat({file, flags.repeat, report_of(flags)}, around.out, around.messages);
  }
  return run_replay({file, cases_of(flags)}, around.out, around.messages);
}

ExitCode diff(const Flags& flags, const Surroundings& around) {
  return run_diff({flags.operands[0], flags.operands[1], flags.ops, report_of(flags)}, around.out, around.messages);
}

ExitCode accuracy(const Flags& flags, const Surroundings& around) {
  return run_accuracy({list_of(flags, "accuracy.json"), report_of(flags), flags.has("--by-gpu")}, around.out,
                      around.messages);
}

ExitCode coverage(const Flags& flags, const Surroundings& around) {
  if (flags.has("--by-distance")) {
    refuse(flags, {"--calibration", "--format"}, "with --by-distance, which holds every card's against every other's");
  }
  return run_coverage({{list_of(flags, "bands.json")}, flags.calibration, report_of(flags), flags.has("--by-distance")},
                      around.out);
}

ExitCode power(const Flags& flags, const Surroundings& around) {
  if (flags.least_cap_percent > flags.most_cap_percent) {
    throw BadInput("--least-cap: expected at most --most-cap, found more");
  }
  return run_power_table({flags.operands, card_of(flags), rows_of(flags), flags.least_cap_percent,
                          flags.most_cap_percent, flags.rows, report_of(flags)},
                         around.out);
}

/// Collectives, links, copies and the disk.
ExitCode run_linked(const Flags& flags, const Surroundings& around) {
  refuse(flags, {"--study", "--alone", "--where", "--ops", "--min-us", "--kernels-table"},
         "where several GPUs' collectives and links are measured");
  LinksRequest request;
  request.links.gpus = static_cast<int>(std::min<std::int64_t>(flags.gpus, kMostGpus));
  request.links.out = flags.out;
  request.links.nccl = flags.nccl;
  request.links.only = flags.only;
  request.links.quick = flags.has("--quick");
  request.card = card_of(flags);
  request.report = report_of(flags);
  request.stack = stack_of(flags, "own");
  return run_links(request, around.links, around.out, around.messages);
}

ExitCode run(const Flags& flags, const Surroundings& around) {
  if (flags.gpus > 1 || flags.has("--only")) return run_linked(flags, around);
  refuse(flags, {"--nccl"}, "without --gpus");
  for (const std::string& study : flags.studies) {
    if (!is_step_study(read_text_file(study), study)) continue;
    throw BadInput("--study '" + study + "': expected operators, found whole steps; 'validate step --study' runs them");
  }
  if (flags.has("--kernels-table")) refuse(flags, {"--format"}, "with --kernels-table, which is Markdown");
  return run_live({flags.studies, flags.out, flags.has("--quick"), flags.has("--alone"), cases_of(flags)},
                  around.measurer, around.out, around.messages, around.terminal);
}

ExitCode step(const Flags& flags, const Surroundings& around) {
  if (flags.operands.empty() == flags.studies.empty()) {
    throw BadInput(flags.studies.empty() ? "expected MODEL or --study FILE.csv"
                                         : "--study: has no meaning beside MODEL '" + flags.operands.front() + "'");
  }
  if (!flags.studies.empty()) {
    refuse(flags, {kStepFlags.begin(), kStepFlags.end()}, "with --study, whose rows say it");
    refuse(flags, {"--clock"}, "with --study, whose rows say it");
  }
  const bool check = flags.has("--check");
  if (check) refuse(flags, {"--out", "--format", "--fail-over"}, "with --check");
  return run_steps({steps_of(flags), flags.studies, check, card_of(flags), flags.out, report_of(flags)},
                   around.step_measurer, around.out, around.messages);
}

ExitCode calibrate(const Flags& flags, const Surroundings& around) {
  if (flags.has("--replay")) refuse(flags, {"--quick", "--probes"}, "with --replay");
  return run_calibrate({flags.replay, flags.has("--quick"), card_of(flags), flags.probes, flags.out}, around.probes,
                       around.out, around.messages);
}

ExitCode fit(const Flags& flags, const Surroundings& around) {
  FitRequest request;
  request.files = flags.operands;
  request.card = card_of(flags);
  request.rows = rows_of(flags);
  request.kernels = flags.kernels.value_or(KernelSet::library);
  request.clock = flags.clock;
  request.family = flags.family;
  request.free = flags.free;
  request.balance = !flags.has("--unbalanced");
  request.source = flags.source;
  request.out_file = flags.out;
  request.report_file = flags.report;
  return run_fit(request, around.out, around.messages);
}

ExitCode fit_power(const Flags& flags, const Surroundings& around) {
  return run_fit_power({flags.operands, card_of(flags), rows_of(flags), flags.source, flags.out, flags.report},
                       around.out, around.messages);
}

ExitCode fit_bands(const Flags& flags, const Surroundings& around) {
  return run_fit_bands({{list_of(flags, "bands.json")}, flags.gpu, flags.calibration, flags.out, flags.report},
                       around.out, around.messages);
}

ExitCode fit_steps(const Flags& flags, const Surroundings& around) {
  return run_fit_steps({{list_of(flags, "bands.json")}, flags.out, flags.report}, around.out, around.messages);
}

ExitCode sides(const Flags& flags, const Surroundings& around) {
  write_or_print(report_of(flags), sides_text(flags.operands, around.in), around.out);
  return ExitCode::done;
}

// --- the table ------------------------------------------------------------------------------------------------------

using Names = std::vector<std::string_view>;

Names operator+(Names names, const Names& more) {
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

const Names kMachine{"--gpu", "--set", "--calibration"}, kStack{"--stack", "--kernels"};
const Names kFilters{"--where", "--ops", "--min-us"}, kReport{"--format", "--report"}, kGate{"--fail-over"};
const Names kAll{"table", "json", "csv", "html"}, kFigures{"table", "json", "csv"};

std::vector<Mode> desk_modes() {
  return {
      {"compare", ModeGroup::desk, "FILE...", 1, kAny, "anyone's measurements: CSV with op,dtype,shape,measured_us",
       kMachine + kStack + Names{"--attention", "--collective", "--clock"} + kFilters + kReport + Names{"--rows"} +
           kGate + Names{"--model"} + Names(kStepFlags.begin(), kStepFlags.end()) + Names{"--out"},
       kAll,
       "FILE: CSV, or a recording (.json). Other columns: gpu, clock, cache, stack, measured_W, held_out, ...\n"
       "Or whole models: flags of llm as columns (model,phase,batch,prompt,output,dtype,...) and one of measured_ms,\n"
       "measured_tokens_per_s, measured_tokens_per_s_per_gpu, measured_TFLOP_per_s_per_gpu.\n"
       "Or a profiler's timeline of a few steps, with --model, --phase and their sizes: a trace of PyTorch's (.json,\n"
       ".json.gz), ncu --csv (page raw or details), nsys export --type sqlite. --out FILE.json: both as one trace.\n"
       "--stack is trt-llm where it is not given; attention rows of another stack are then priced with its kernels.\n"
       "Examples:\n"
       "  validate compare measurements.csv --gpu h200 --where dtype=bf16 --fail-over 10\n"
       "  validate compare trace.json.gz --model llama-3.1-8b --phase decode --context 2000 --stack hf-sdpa",
       compare},
      {"replay", ModeGroup::desk, "RECORDING", 1, 1, "the comparison of a recording that run or step wrote",
       kMachine + kStack + kFilters + Names{"--kernels-table", "--repeat"} + kReport + kGate, kAll,
       "--stack is own where it is not given. --repeat prints table, json or csv; recordings of steps table or csv.",
       replay},
      {"diff", ModeGroup::desk, "FIRST SECOND", 2, 2, "two recordings side by side: what each operator won and lost",
       Names{"--ops"} + kReport + kGate, kFigures,
       "FIRST, SECOND: recordings of operators, or of steps. JSON and CSV have every pair, the table the 20 that\n"
       "changed most. With --fail-over: exit code 1 when a group takes more than so much longer in the second.",
       diff},
      {"accuracy", ModeGroup::desk, "[LIST]", 0, 1, "the accuracy that is claimed, from committed measurements",
       Names{"--by-gpu"} + kReport, kFigures,
       "LIST: held-out sets and the worst median error that each may have [data/studies/accuracy.json].\n"
       "Exit code 1 when one is worse.",
       accuracy},
      {"coverage", ModeGroup::desk, "[LIST]", 0, 1, "how many held-out rows lie in their error bands",
       Names{"--calibration", "--by-distance"} + kReport, kFigures, "LIST: rows to check [data/studies/bands.json].",
       coverage},
      {"power", ModeGroup::desk, "FILE...", 1, kAny, "time, power and clock of steady rows against the model, by class",
       kMachine + kFilters + Names{"--least-cap", "--most-cap", "--rows"} + kReport, kFigures,
       "FILE: recordings, or CSV with measured_W. --gpu is the recordings' own where it is not given, h200_sxm of CSV.",
       power},
  };
}

std::vector<Mode> card_modes() {
  return {
      {"run", ModeGroup::card, "", 0, 0, "measure operators, predict them, compare",
       Names{"--quick", "--study", "--alone", "--gpus", "--nccl", "--only"} + kMachine + kStack + kFilters +
           Names{"--out", "--kernels-table"} + kReport + kGate,
       kAll,
       "Without --quick or --study: train and heldout of data/studies, some six minutes on an H200. --stack is own\n"
       "where it is not given: our kernels are measured, with the library's beside them; of other stacks the\n"
       "library's alone. Ctrl-C stops after the present case and reports on what there is.\n"
       "With --gpus N: collectives, ours and NCCL's, among the first N GPUs, the links between them, products\n"
       "beside collectives, copies, the disk, a line each into --out FILE.csv, in five minutes; ours are compared.",
       run},
      {"step",
       ModeGroup::card,
       "[MODEL]",
       0,
       1,
       "measure whole steps of a model on our kernels in one CUDA graph",
       Names{"--phase", "--batch", "--context", "--prompt", "--page", "--dtype", "--tp", "--dp", "--sp", "--layers",
             "--clock", "--study", "--check"} +
           kMachine + Names{"--out"} + kReport + kGate,
       {"table", "csv"},
       "MODEL: a name from 'predict-model list models', or a config.json; or --study with a list of steps.\n"
       "Without --clock both burst and steady are measured.",
       step},
      {"calibrate",
       ModeGroup::card,
       "",
       0,
       0,
       "measure the card's coefficients, about 90 s, and write a calibration",
       Names{"--quick", "--probes", "--replay"} + kMachine + Names{"--out"},
       {},
       "The calibration goes to --out, else to stdout.",
       calibrate},
  };
}

std::vector<Mode> advanced_modes() {
  return {
      {"fit",
       ModeGroup::advanced,
       "FILE...",
       1,
       kAny,
       "coefficients of a kernel family from training rows",
       kMachine + Names{"--kernels", "--clock"} + kFilters +
           Names{"--family", "--free", "--source", "--unbalanced", "--out", "--report"},
       {},
       "--kernels: whose section of the calibration, own or library [library]. Held-out rows are left out.",
       fit},
      {"fit-power",
       ModeGroup::advanced,
       "FILE...",
       1,
       kAny,
       "energies, voltage and data factors from steady rows",
       kMachine + kFilters + Names{"--source", "--out", "--report"},
       {},
       "Held-out rows are left out.",
       fit_power},
      {"fit-bands",
       ModeGroup::advanced,
       "[LIST]",
       0,
       1,
       "error bands from the training rows of a list",
       Names{"--gpu", "--calibration", "--out", "--report"},
       {},
       "LIST: [data/studies/bands.json].",
       fit_bands},
      {"fit-steps",
       ModeGroup::advanced,
       "[LIST]",
       0,
       1,
       "error bands of whole steps, by stack, from the training steps of a list",
       Names{"--out", "--report"},
       {},
       "LIST: [data/studies/bands.json].",
       fit_steps},
      {"sides",
       ModeGroup::advanced,
       "FILE...",
       1,
       kAny,
       "which rows may be fitted and which are held out, a line each",
       Names{"--report"},
       {},
       "FILE: CSV with op,shape or model,phase; a recording; - for stdin.",
       sides},
  };
}

std::vector<Mode> table() {
  std::vector<Mode> all = desk_modes();
  for (const std::vector<Mode>& more : {card_modes(), advanced_modes()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

const std::vector<Mode>& modes() {
  static const std::vector<Mode> kModes = table();
  return kModes;
}

}  // namespace plumbline
