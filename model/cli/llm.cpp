// predict-model llm: one step of a model on a GPU, or a whole answer.
#include <algorithm>

#include "arch/format.hpp"
#include "model/cli/common.hpp"
#include "model/cli/model_flags.hpp"
#include "model/cli/parallel.hpp"
#include "model/cli/training.hpp"
#include "model/generate.hpp"
#include "model/report/graph/graph_json.hpp"
#include "model/report/monitor/profiler_table.hpp"
#include "model/report/remarks.hpp"
#include "model/report/report.hpp"
#include "model/stacks/stack.hpp"
#include "ops/memory/memory.hpp"

namespace plumbline::cli {
namespace {

struct LlmFlags {
  LlmQuestion asked;
  MachineFlags machine;
  OutputFlags output;
  TrainingFlags training;
  std::optional<Bandwidth> storage;
  std::int64_t top = 0;
  Given given;
  std::optional<std::string> explain;  ///< "": every operator
};

void add_output_length(const Command& app, LlmFlags& f) {
  add_whole(app, "--output", "tokens that each sequence writes: generate [256]", f.asked.output, 1);
}

/// Whether the format has room for sentences.
bool tells_more_than_figures(Format format) {
  return format != Format::csv && format != Format::trace && format != Format::profiler;
}

/// No flag is ignored: what has no meaning for the question is refused.
void refuse_idle_flags(const LlmFlags& f, const Llm& llm) {
  refuse_idle_lengths(f.asked, llm);
  const std::string format(word_of(kFormatWords, f.output.format));
  const bool tells = tells_more_than_figures(f.output.format);
  if (f.explain && (!tells || f.asked.phase == AskedPhase::generate)) {
    throw BadInput("--explain: expected it with --format table, json or html of one step");
  }
  if (f.storage && (!tells || f.asked.phase == AskedPhase::generate)) {
    throw BadInput("--storage: expected it with --format table, json or html of one step");
  }
  if (f.top > 0 && f.output.format != Format::table) {
    throw BadInput("--top: expected it with --format table; " + format + " has every operator");
  }
  const bool of_a_step = f.output.format == Format::trace || f.output.format == Format::profiler;
  if (f.asked.phase == AskedPhase::generate && of_a_step) {
    throw BadInput("--format " + format + ": expected table, json, csv or html with --phase generate");
  }
}

/// CSV and traces have no room for them: stderr says those that change what the figures are.
std::vector<std::string> remarks_of(const LlmFlags& f, const Llm& llm, const Workload& workload, const Machine& machine,
                                    const std::optional<Watts>& power, const StepPrediction& step) {
  std::vector<std::string> remarks = cap_remarks(machine, power);
  for (std::string& sentence : parallel_remarks(workload, machine, !f.machine.cluster.empty())) {
    remarks.push_back(std::move(sentence));
  }
  if (workload.phase == Phase::train) {
    for (std::string& sentence : training_remarks(workload, llm, machine)) remarks.push_back(std::move(sentence));
  }
  tell_beside(f.output, remarks);
  for (std::string& sentence : band_remarks(step, machine)) remarks.push_back(std::move(sentence));
  return remarks;
}

ExitCode run_generate(const LlmFlags& f, const Llm& llm, const Workload& workload, const Machine& machine,
                      const RunOptions& run, Bytes reserve) {
  Predictor predictor;
  const GeneratePrediction all = predict_generate(predictor, llm, workload, f.asked.output, machine, run);
  const Bytes capacity = machine.gpu().memory.usable_capacity();
  Fit fit = fit_of(llm, workload, capacity, reserve);
  if (all.steps > 0) fit = both(fit, fit_of(llm, decode_step(llm, workload, all.steps - 1), capacity, reserve));
  refuse_idle_choices(f.machine.stack, all.prefill);
  StepReport question{llm, workload, machine, f.machine.clock, run, all.prefill, {}, {}, fit, f.given, f.top};
  question.remarks = remarks_of(f, llm, workload, machine, all.power(), all.prefill);
  const GenerateReport report{question, f.asked.output, f.asked.output_given, all};
  switch (f.output.format) {
    case Format::json: deliver(f.output, generate_json(report)); break;
    case Format::csv: deliver(f.output, generate_csv(report)); break;
    case Format::html: deliver(f.output, generate_html(report)); break;
    default: deliver(f.output, generate_table(report, style_for(f.output)));
  }
  return fit.fits ? ExitCode::done : ExitCode::answered_no;
}

LoadTime load_of(const LlmFlags& f, const Llm& llm, const Workload& workload, const Machine& machine,
                 Predictor& predictor) {
  Workload alone = workload;
  alone.parallel = ParallelPlan{};
  const Bytes model = memory_need(llm, alone).weights, mine = memory_need(llm, workload).weights;
  return load_time(predictor, machine, workload.parallel, mine, model, f.storage);
}

/// The same question to a library's stack; nothing where it cannot be asked this, or is none.
std::optional<StepPrediction> by_stack(const std::string& name, const LlmFlags& f, const Llm& llm,
                                       Predictor& predictor) {
  MachineFlags flags = f.machine;
  flags.stack = StackChoice();
  flags.stack.name = name;
  try {
    const Stack& stack = machines().stack(name);
    // products that stand in are no stack's own: what it would gain was never measured
    if (stack.kernels() != KernelSet::library || stack.providers.front().stands_in) return std::nullopt;
    const Machine machine = open_machine(flags);
    LlmQuestion asked = f.asked;
    asked.fusion.reset();
    Workload workload = settled_sizes(asked, machine.stack());
    // launch lists are of whole prompts: attention behind tokens that are in the cache was never traced
    if (machine.stack().rewrites && workload.phase == Phase::prefill && workload.cached > 0) return std::nullopt;
    workload.overlap = settle_overlap(asked.parallel.overlap, llm, workload, machine.stack());
    return predictor.predict(llm, workload, machine, RunOptions{machine.stack().runtime});
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// What the quickest stack of all would make of the same question, where one of a library's kernels was asked by name. Of
/// stacks that are as quick the first by name.
void advise_best_stack(const LlmFlags& f, const Llm& llm, const StepPrediction& step, Predictor& predictor,
                       std::vector<Advice>& advice) {
  if (!f.given.stack) return;
  if (machines().stack(f.machine.stack.name).kernels() != KernelSet::library) return;
  std::optional<StepPrediction> best;
  std::string by;
  for (const std::string& name : stack_names()) {
    if (name == f.machine.stack.name) continue;
    std::optional<StepPrediction> other = by_stack(name, f, llm, predictor);
    if (!other || (best && best->latency <= other->latency)) continue;
    best = std::move(other);
    by = name;
  }
  if (!best) return;
  if (auto found = advise_stack(step, *best, by)) {
    advice.insert(advice.begin(), std::move(*found));
  } else if (best->latency > (1 - kLeastGain) * step.latency) {
    advice.push_back(none_quicker(step, *best, by));
  }
}

ExitCode run_llm(const LlmFlags& f) {
  const auto machine = open_machine(f.machine);
  Workload workload = settled_sizes(f.asked, machine.stack());
  const RunOptions run{f.asked.runtime.value_or(machine.stack().runtime)};
  if (!f.machine.stack.host.empty() && run.runtime != Runtime::eager) {
    throw BadInput(
        "--host: the host is waited for where it launches one by one alone: expected --runtime eager, found " +
        std::string(word_of(kRuntimeWords, run.runtime)));
  }
  const Llm llm = load_llm(f.asked.model);
  settle_attention(llm, machine.stack(), workload);
  workload.overlap = settle_overlap(f.asked.parallel.overlap, llm, workload, machine.stack());
  refuse_idle_flags(f, llm);
  const Bytes capacity = machine.gpu().memory.usable_capacity(), reserve = reserve_of(f.asked.reserve, capacity);
  if (f.asked.phase == AskedPhase::generate) return run_generate(f, llm, workload, machine, run, reserve);
  Predictor predictor;
  StepPrediction step = predictor.predict(llm, workload, machine, run);
  refuse_idle_choices(f.machine.stack, step);
  const Fit fit = fit_of(llm, workload, capacity, reserve);
  step.fits = fit.fits;  // the reserve counts
  StepReport report{llm, workload, machine, f.machine.clock, run, step, {}, f.explain, fit, f.given, f.top};
  report.remarks = remarks_of(f, llm, workload, machine, step.power, step);
  if (tells_more_than_figures(f.output.format)) {
    report.advice = advise(step, machine, run, predictor);
    advise_best_stack(f, llm, step, predictor, report.advice);
  }
  report.training_tokens = f.training.tokens;
  if (f.training.failures.of_gpu > Seconds{}) {
    report.failures = failures_of(llm, workload, *machine.rates().fabric, f.training.failures, f.storage);
  } else if (f.training.failures.restart > Seconds{}) {
    throw BadInput("--restart: expected it with --mtbf, which says how often");
  }
  report.load = load_of(f, llm, workload, machine, predictor);
  check_explained(report);
  switch (f.output.format) {
    case Format::json: deliver(f.output, step_json(report)); break;
    case Format::csv: deliver(f.output, step_csv(report)); break;
    case Format::trace: deliver(f.output, step_trace(report)); break;
    case Format::html: deliver(f.output, step_html(report)); break;
    case Format::profiler: deliver(f.output, step_profiler(report)); break;
    default: deliver(f.output, step_table(report, style_for(f.output)));
  }
  return fit.fits ? ExitCode::done : ExitCode::answered_no;
}

/// A graph is of the model alone: no machine and no step.
ExitCode write_graph(const LlmFlags& f) {
  deliver(f.output, graph_form(load_llm(f.asked.model)));
  return ExitCode::done;
}

/// Flags without which there is nothing to predict, and flags that a graph has no room for.
void check_needed_flags(const Command& app, const LlmFlags& f) {
  const bool graph = f.output.format == Format::graph;
  for (const char* flag : {"--phase", "--gpu"}) {
    if (!graph && !app.given(flag)) throw BadInput(std::string(flag) + " is required");
  }
  if (!graph) return;
  for (const std::string& flag : app.all_given()) {
    if (flag == "--model" || flag == "--format" || flag == "--out") continue;
    throw BadInput(flag + ": has no meaning with --format graph, which is of the model alone");
  }
}

void note_what_is_given(const Command& app, LlmFlags& f) {
  const auto has = [&app](const char* flag) { return app.given(flag); };
  f.asked.prompt_given = has("--prompt");
  f.asked.context_given = has("--context");
  f.asked.output_given = has("--output");
  f.given = {has("--batch"), f.asked.phase == AskedPhase::decode ? f.asked.context_given : f.asked.prompt_given,
             has("--stack"), has("--clock")};
}

}  // namespace

void add_llm_command(const Command& root, Action& action) {
  auto flags = std::make_shared<LlmFlags>();
  flags->machine.clock = ClockMode::steady;  // a model runs for long; contract: default for whole models
  const Command app = root.subcommand("llm", "a transformer: one prefill or decode step, a whole answer, training");
  app.text("--model", "NAME|FILE|FOLDER", "a name from 'list models', a Hugging Face config.json, or its folder",
           flags->asked.model)
      .required();
  add_choice(app, "--phase", kAskedPhaseWords, flags->asked.phase,
             "the prompt; a token per sequence; a whole answer; forward and backward", false);
  add_machine_flags(app, flags->machine, false);
  add_size_flags(app, flags->asked.workload);
  add_output_length(app, *flags);
  add_parallel_flags(app, flags->asked.parallel, flags->asked.workload);
  add_training_flags(app, flags->asked);
  add_whole_training_flags(app, flags->training, flags->asked);
  add_precision_flags(app, flags->asked.workload);
  app.value("--runtime", joined_words(kRuntimeWords),
            "launches: in a CUDA graph, queued, one by one from Python [the stack's]",
            [flags](const std::string& text) { flags->asked.runtime = chosen_word("--runtime", kRuntimeWords, text); });
  app.text("--host", "FILE.json|TIME", "what this machine's host takes for a launch one by one, measured [the stack's]",
           flags->machine.stack.host);
  app.value("--fusion", joined_words(kFusionWords),
            "none: a kernel for each framework op; typical: as serving stacks [the stack's]",
            [flags](const std::string& text) { flags->asked.fusion = chosen_word("--fusion", kFusionWords, text); });
  add_reserve_flag(app, flags->asked.reserve);
  app.value("--storage", "RATE", "what a node reads a second: 12GB/s; load_s follows [the cluster's]",
            [flags](const std::string& text) {
              try {
                flags->storage = parse_bandwidth(text);
              } catch (const BadInput& bad) {
                throw BadInput(std::string("--storage: ") + bad.what());
              }
              if (*flags->storage <= Bandwidth{})
                throw BadInput("--storage: expected a rate above 0, found '" + text + "'");
            });
  add_output_flags(
      app, flags->output,
      {Format::table, Format::json, Format::csv, Format::trace, Format::html, Format::graph, Format::profiler});
  app.value("--explain", "[OP]", "the formula behind every operator's time, or behind this one's",
            [flags](const std::string& text) { flags->explain = text; })
      .value_optional();
  add_whole(app, "--top", "the N operators of a table that take longest [all]", flags->top, 1);
  app.footer(
      "--format graph writes the model, to edit and to give to --model. Exit code 1: it does not fit the memory.\n"
      "Training also has --micro-batch --recompute --recompute-layers --schedule --vp --zero --fsdp --optimizer\n"
      "--grad-dtype --clip --offload --fp8-recipe --sparse24 --tokens --mtbf --restart.\n"
      "Examples  predict-model llm --model llama-3.1-8b --gpu h200 --phase decode --batch 16 --context 4096\n"
      "          predict-model llm --model my/config.json --gpu h100 --phase prefill --prompt 512 --tp 4");
  app.when_chosen([flags, app, &action] {
    check_needed_flags(app, *flags);
    note_what_is_given(app, *flags);
    const bool trains = flags->asked.phase == AskedPhase::train;
    if (trains && !flags->given.stack) flags->machine.stack.name = kTrainingStack;
    if (flags->output.format == Format::graph) action = [flags] { return write_graph(*flags); };
    else action = [flags] { return run_llm(*flags); };
  });
}

}  // namespace plumbline::cli
