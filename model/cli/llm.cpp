// predict-model llm: one step of a model on a GPU, or a whole answer.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "arch/format.hpp"
#include "model/cli/common.hpp"
#include "model/generate.hpp"
#include "model/report/remarks.hpp"
#include "model/report/report.hpp"
#include "model/stacks/stack.hpp"

namespace plumbline::cli {
namespace {

enum class Question { prefill, decode, generate, train };
constexpr std::array<Word<Question>, 4> kQuestionWords{{{"prefill", Question::prefill},
                                                        {"decode", Question::decode},
                                                        {"generate", Question::generate},
                                                        {"train", Question::train}}};

/// What the runtime keeps of the memory unless the user says: serving engines are started with 0.9 of it by default
/// (vLLM's gpu_memory_utilization; TensorRT-LLM's free_gpu_memory_fraction, of what weights leave).
constexpr double kUsualReserve = 0.1;

struct LlmFlags {
  std::string model;
  MachineFlags machine;
  OutputFlags output;
  Question question = Question::decode;
  Workload workload;
  std::int64_t tokens_written = 256;
  std::optional<Runtime> runtime;  ///< else the stack's
  std::optional<Fusion> fusion;
  std::int64_t gpus = 1;
  std::string reserve;  ///< "": the usual share
  std::int64_t top = 0;
  bool prompt_given = false, context_given = false, output_given = false;
  Given given;
  std::optional<std::string> explain;  ///< "": every operator
};

void add_whole(CLI::App& app, const std::string& flag, const std::string& help, std::int64_t& target,
               std::int64_t least) {
  add_value(app, flag, "N", help,
            [flag, &target, least](const std::string& text) { target = whole_number(flag, text, least); });
}

void add_size_flags(CLI::App& app, LlmFlags& f) {
  Workload& w = f.workload;
  add_whole(app, "--batch", "sequences [1]", w.batch, 1);
  add_whole(app, "--prompt", "prompt tokens per sequence: prefill, generate, train; 8k is 8192 [1024]", w.prompt, 1);
  add_whole(app, "--context", "tokens in the KV cache already: decode [1024]; prefill, generate: before the prompt [0]",
            w.context, 0);
  add_whole(app, "--output", "tokens that each sequence writes: generate [256]", f.tokens_written, 1);
}

/// Understood, so that a user is told what is missing and not that they are unknown; not in the help.
void add_later_flags(CLI::App& app, LlmFlags& f) {
  Workload& w = f.workload;
  add_whole(app, "--gpus", "", f.gpus, 1);
  add_whole(app, "--tp", "", w.parallel.tensor, 1);
  add_whole(app, "--pp", "", w.parallel.pipeline, 1);
  add_whole(app, "--dp", "", w.parallel.data, 1);
  add_whole(app, "--ep", "", w.parallel.expert, 1);
  add_whole(app, "--cp", "", w.parallel.context, 1);
  add_value(app, "--zero", "0..3", "",
            [&w](const std::string& text) { w.parallel.zero = static_cast<int>(whole_number("--zero", text, 0, 3)); });
  for (const char* flag : {"--gpus", "--tp", "--pp", "--dp", "--ep", "--cp", "--zero"}) {
    app.get_option(flag)->group("");
  }
}

void set_precision(Workload& workload, const std::string& text) {
  const std::optional<Precision> precision = parse_precision(text);
  if (!precision) {
    throw BadInput("--dtype: expected bf16, fp16, fp8, int8, w4a16, mxfp4 or nvfp4; found '" + text + "'" +
                   did_you_mean(text, {"bf16", "fp16", "fp8", "int8", "w4a16", "mxfp4", "nvfp4", "fp32", "tf32"}));
  }
  workload.precision = *precision;
  workload.precision_given = true;
}

void set_kv_dtype(Workload& workload, const std::string& text) {
  const std::optional<DType> type = parse_dtype(text);
  if (!type || (*type != DType::bf16 && *type != DType::fp16 && *type != DType::fp8)) {
    throw BadInput("--kv-dtype: expected bf16, fp16 or fp8; found '" + text + "'" +
                   did_you_mean(text, {"bf16", "fp16", "fp8"}));
  }
  workload.kv_dtype = *type;
  workload.kv_dtype_given = true;
}

void add_precision_flags(CLI::App& app, LlmFlags& f) {
  add_value(app, "--dtype", "bf16|fp16|fp8|int8|w4a16|mxfp4|nvfp4",
            "how weights are stored and multiplied [as the model is published]",
            [&f](const std::string& text) { set_precision(f.workload, text); });
  add_value(app, "--kv-dtype", "bf16|fp16|fp8", "how the KV cache is stored [as the model is published]",
            [&f](const std::string& text) { set_kv_dtype(f.workload, text); });
}

void refuse_several_gpus(const LlmFlags& f) {
  if (f.gpus > 1) throw NotModelled("--gpus " + std::to_string(f.gpus) + ": several GPUs are not modelled yet");
  if (!f.machine.cluster.empty()) throw NotModelled("--cluster: several GPUs are not modelled yet");
}

void refuse(const std::string& flag, const LlmFlags& f, const std::string& expected) {
  throw BadInput(flag + ": has no meaning with --phase " + std::string(word_of(kQuestionWords, f.question)) +
                 ": expected " + expected);
}

/// The encoder whose input the prompt is.
bool encodes_the_prompt(const Llm& llm) {
  return llm.main().role == StackSpec::Role::decoder &&
         std::any_of(llm.stacks.begin(), llm.stacks.end(), [](const StackSpec& stack) {
           return stack.role == StackSpec::Role::encoder && stack.fixed_tokens == 0;
         });
}

/// No flag is ignored: what has no meaning for the question is refused.
void refuse_idle_flags(const LlmFlags& f, const Llm& llm) {
  if (f.output_given && f.question != Question::generate) refuse("--output", f, "it with --phase generate");
  if (f.question == Question::decode && f.prompt_given && !encodes_the_prompt(llm)) {
    refuse("--prompt", f, "--context, the tokens in the cache (" + llm.name + " has no encoder that reads a prompt)");
  }
  if (f.question == Question::train && f.context_given) refuse("--context", f, "--prompt");
  const std::string format(word_of(kFormatWords, f.output.format));
  const bool tells = f.output.format != Format::csv && f.output.format != Format::trace;
  if (f.explain && (!tells || f.question == Question::generate)) {
    throw BadInput("--explain: expected it with --format table, json or html of one step");
  }
  if (f.top > 0 && f.output.format != Format::table) {
    throw BadInput("--top: expected it with --format table; " + format + " has every operator");
  }
  if (f.question == Question::generate && f.output.format == Format::trace) {
    throw BadInput("--format trace: expected table, json, csv or html with --phase generate");
  }
}

Bytes reserve_of(const std::string& text, Bytes capacity) {
  if (text.empty()) return kUsualReserve * capacity;
  const bool percent = text.back() == '%';
  if (!percent && text.find_first_not_of("0123456789.") != text.npos) {
    try {
      const Bytes bytes = parse_bytes(text);
      if (bytes < capacity) return bytes;
    } catch (const BadInput&) {
    }
  } else {
    const std::string digits = percent ? text.substr(0, text.size() - 1) : text;
    double value = -1;
    const char* end = digits.data() + digits.size();
    const auto [after, error] = std::from_chars(digits.data(), end, value);
    if (error == std::errc() && after == end && value >= 0 && value < 100) return value / 100 * capacity;
  }
  throw BadInput("--reserve: expected a share below 100% such as 10%, or a size below " + format(capacity) +
                 " such as 8GB; found '" + text + "'");
}

Phase phase_of(Question question) {
  switch (question) {
    case Question::decode: return Phase::decode;
    case Question::train: return Phase::train;
    default: return Phase::prefill;
  }
}

Workload workload_of(const LlmFlags& f, const Machine& machine) {
  Workload workload = f.workload;
  workload.phase = phase_of(f.question);
  workload.fusion = f.fusion.value_or(machine.stack().fusion);
  if (workload.phase == Phase::prefill && f.context_given) workload.cached = f.workload.context;
  check(workload);
  return workload;
}

void refuse_idle_choices(const StackChoice& stack, const StepPrediction& step) {
  std::vector<std::string_view> used;
  for (const NodePrediction& n : step.nodes) used.push_back(n.op.provider);
  cli::refuse_idle_attention(stack, used, "this step");
  const bool any = std::any_of(step.nodes.begin(), step.nodes.end(),
                               [](const NodePrediction& n) { return std::holds_alternative<Collective>(n.node->op); });
  cli::refuse_idle_collective(stack, any, "this step");
}

/// CSV and traces have no room for them: stderr says those that change what the figures are.
std::vector<std::string> remarks_of(const LlmFlags& f, const Machine& machine, const std::optional<Watts>& power,
                                    const StepPrediction& step) {
  std::vector<std::string> remarks = cap_remarks(machine, power);
  tell_beside(f.output, remarks);
  for (std::string& sentence : band_remarks(step, machine)) remarks.push_back(std::move(sentence));
  return remarks;
}

ExitCode run_generate(const LlmFlags& f, const Llm& llm, const Workload& workload, const Machine& machine,
                      const RunOptions& run, Bytes reserve) {
  Predictor predictor;
  const GeneratePrediction all = predict_generate(predictor, llm, workload, f.tokens_written, machine, run);
  const Bytes capacity = machine.gpu().memory.capacity;
  Fit fit = fit_of(llm, workload, capacity, reserve);
  if (all.steps > 0) fit = both(fit, fit_of(llm, decode_step(llm, workload, all.steps - 1), capacity, reserve));
  refuse_idle_choices(f.machine.stack, all.prefill);
  StepReport question{llm, workload, machine, f.machine.clock, run, all.prefill, {}, {}, fit, f.given, f.top};
  question.remarks = remarks_of(f, machine, all.power(), all.prefill);
  const GenerateReport report{question, f.tokens_written, f.output_given, all};
  switch (f.output.format) {
    case Format::json: deliver(f.output, generate_json(report)); break;
    case Format::csv: deliver(f.output, generate_csv(report)); break;
    case Format::html: deliver(f.output, generate_html(report)); break;
    default: deliver(f.output, generate_table(report, style_for(f.output)));
  }
  return fit.fits ? ExitCode::done : ExitCode::answered_no;
}

ExitCode run_llm(const LlmFlags& f) {
  refuse_several_gpus(f);
  const auto machine = open_machine(f.machine);
  const Workload workload = workload_of(f, machine);
  const RunOptions run{f.runtime.value_or(machine.stack().runtime)};
  const Llm llm = load_llm(f.model);
  refuse_idle_flags(f, llm);
  const Bytes capacity = machine.gpu().memory.capacity, reserve = reserve_of(f.reserve, capacity);
  if (f.question == Question::generate) return run_generate(f, llm, workload, machine, run, reserve);
  Predictor predictor;
  StepPrediction step = predictor.predict(llm, workload, machine, run);
  refuse_idle_choices(f.machine.stack, step);
  const Fit fit = fit_of(llm, workload, capacity, reserve);
  step.fits = fit.fits;  // the reserve counts
  StepReport report{llm, workload, machine, f.machine.clock, run, step, {}, f.explain, fit, f.given, f.top};
  report.remarks = remarks_of(f, machine, step.power, step);
  if (f.output.format != Format::csv && f.output.format != Format::trace) {
    report.advice = advise(step, machine, run, predictor);
  }
  check_explained(report);
  switch (f.output.format) {
    case Format::json: deliver(f.output, step_json(report)); break;
    case Format::csv: deliver(f.output, step_csv(report)); break;
    case Format::trace: deliver(f.output, step_trace(report)); break;
    case Format::html: deliver(f.output, step_html(report)); break;
    default: deliver(f.output, step_table(report, style_for(f.output)));
  }
  return fit.fits ? ExitCode::done : ExitCode::answered_no;
}

void note_what_is_given(const CLI::App& app, LlmFlags& f) {
  const auto has = [&app](const char* flag) { return app.count(flag) > 0; };
  f.prompt_given = has("--prompt");
  f.context_given = has("--context");
  f.output_given = has("--output");
  f.given = {has("--batch"), f.question == Question::decode ? f.context_given : f.prompt_given, has("--stack"),
             has("--clock")};
}

}  // namespace

void add_llm_command(CLI::App& root, Action& action) {
  auto flags = std::make_shared<LlmFlags>();
  flags->machine.clock = ClockMode::steady;  // a model runs for long; contract: default for whole models
  CLI::App* app = root.add_subcommand("llm", "a transformer: one prefill or decode step, a whole answer, training");
  app->add_option("--model", flags->model, "a name from 'list models', a Hugging Face config.json, or its folder")
      ->type_name("NAME|FILE|FOLDER")
      ->required();
  add_choice(*app, "--phase", kQuestionWords, flags->question,
             "the prompt; one token per sequence; both, --output tokens long; forward and backward", false)
      ->required();
  add_machine_flags(*app, flags->machine);
  add_size_flags(*app, *flags);
  add_later_flags(*app, *flags);
  add_precision_flags(*app, *flags);
  add_value(*app, "--runtime", joined_words(kRuntimeWords),
            "how launches reach the GPU: CUDA graph, queued stream, one by one from Python [the stack's]",
            [flags](const std::string& text) { flags->runtime = chosen_word("--runtime", kRuntimeWords, text); });
  add_value(*app, "--fusion", joined_words(kFusionWords),
            "none: each framework op a kernel of its own; typical: today's serving stacks [the stack's]",
            [flags](const std::string& text) { flags->fusion = chosen_word("--fusion", kFusionWords, text); });
  add_value(*app, "--reserve", "P", "memory that the runtime keeps for itself: 10%, or 8GB [10%]",
            [flags](const std::string& text) { flags->reserve = text; });
  add_output_flags(*app, flags->output, {Format::table, Format::json, Format::csv, Format::trace, Format::html});
  add_value(*app, "--explain", "[OP]", "the formula behind every operator's time, or behind this one's",
            [flags](const std::string& text) { flags->explain = text; })
      ->expected(0, 1);
  add_whole(*app, "--top", "the N operators of a table that take longest [all]", flags->top, 1);
  app->footer(
      "Latency is of one step; of --phase generate, of the whole answer. Exit code 1: the report is printed, but\n"
      "the model does not fit the GPU's memory. Not modelled yet: --phase train; several GPUs (--gpus, --tp, --pp,\n"
      "--dp, --ep, --cp, --zero, --cluster).\n"
      "Examples:\n"
      "  predict-model llm --model llama-3.1-8b --gpu h200 --phase decode --batch 16 --context 4096\n"
      "  predict-model llm --model llama-3.1-8b --gpu h200 --phase generate --prompt 2k --output 256 --batch 8\n"
      "  predict-model llm --model my/config.json --gpu h100 --phase prefill --prompt 512 --context 32k");
  app->callback([flags, app, &action] {
    note_what_is_given(*app, *flags);
    action = [flags] { return run_llm(*flags); };
  });
}

}  // namespace plumbline::cli
