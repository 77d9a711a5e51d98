// predict-model llm: one step of a model on a GPU.
#include <CLI/CLI.hpp>

#include "arch/format.hpp"
#include "model/cli/common.hpp"
#include "model/report/report.hpp"
#include "model/stacks/stack.hpp"

namespace plumbline::cli {
namespace {

struct LlmFlags {
  std::string model;
  MachineFlags machine;
  OutputFlags output;
  Workload workload;
  std::optional<Runtime> runtime;  ///< else the stack's
  std::optional<Fusion> fusion;
  std::int64_t gpus = 1;
  std::string cluster;
  bool prompt_given = false, context_given = false;
  std::optional<std::string> explain;  ///< "": every operator
};

void add_size_flags(CLI::App& app, LlmFlags& f) {
  const auto whole = [&app](const std::string& flag, const std::string& help, std::int64_t& target, std::int64_t least,
                            bool* given = nullptr) {
    add_value(app, flag, "N", help + " [" + std::to_string(target) + "]",
              [flag, &target, least, given](const std::string& text) {
                target = whole_number(flag, text, least);
                if (given != nullptr) *given = true;
              });
  };
  Workload& w = f.workload;
  whole("--batch", "sequences", w.batch, 1);
  whole("--prompt", "prompt tokens per sequence (prefill, train)", w.prompt, 1, &f.prompt_given);
  whole("--context", "tokens already in the KV cache (decode)", w.context, 0, &f.context_given);
  whole("--gpus", "GPUs (more than one: not modelled yet)", f.gpus, 1);
  whole("--tp", "tensor parallel degree (not modelled yet)", w.parallel.tensor, 1);
  whole("--pp", "pipeline parallel degree (not modelled yet)", w.parallel.pipeline, 1);
  whole("--dp", "data parallel degree (not modelled yet)", w.parallel.data, 1);
  whole("--ep", "expert parallel degree (not modelled yet)", w.parallel.expert, 1);
  whole("--cp", "context parallel degree (not modelled yet)", w.parallel.context, 1);
  add_value(app, "--zero", "0..3", "ZeRO stage of training (not modelled yet) [0]",
            [&w](const std::string& text) { w.parallel.zero = static_cast<int>(whole_number("--zero", text, 0, 3)); });
  app.add_option("--cluster", f.cluster, "what joins the GPUs (not modelled yet)")->type_name("NAME|FILE.json");
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
  if (!f.cluster.empty()) throw NotModelled("--cluster: several GPUs are not modelled yet");
}

std::vector<std::string> remarks(const LlmFlags& f) {
  if (f.workload.phase == Phase::decode && f.prompt_given) return {"--prompt is not used in decode"};
  if (f.workload.phase != Phase::decode && f.context_given) {
    return {"--context is not used in " + std::string(word_of(kPhaseWords, f.workload.phase))};
  }
  return {};
}

ExitCode run_llm(const LlmFlags& f) {
  refuse_several_gpus(f);
  const auto machine = open_machine(f.machine);
  Workload workload = f.workload;
  workload.fusion = f.fusion.value_or(machine.stack().fusion);
  check(workload);
  const RunOptions run{f.runtime.value_or(machine.stack().runtime)};
  const Llm llm = load_llm(f.model);
  const StepPrediction step = predict(llm, workload, machine, run);
  const StepReport report{llm, workload, machine, f.machine.clock, run, step, remarks(f), f.explain};
  check_explained(report);
  switch (f.output.format) {
    case Format::json: deliver(f.output, step_json(report)); break;
    case Format::csv: deliver(f.output, step_csv(report)); break;
    case Format::trace: deliver(f.output, step_trace(report)); break;
    case Format::html: deliver(f.output, step_html(report)); break;
    default: deliver(f.output, step_table(report, style_for(f.output)));
  }
  return step.fits ? ExitCode::done : ExitCode::answered_no;
}

}  // namespace

void add_llm_command(CLI::App& root, Action& action) {
  auto flags = std::make_shared<LlmFlags>();
  flags->machine.clock = ClockMode::steady;  // a model runs for long; contract: default for whole models
  CLI::App* app = root.add_subcommand("llm", "one step of a transformer: prefill, decode or training");
  app->add_option("--model", flags->model, "a name from 'predict-model list models', or a Hugging Face config.json")
      ->type_name("NAME|config.json")
      ->required();
  add_choice(*app, "--phase", kPhaseWords, flags->workload.phase,
             "the whole prompt; one token a sequence; or forward, backward and optimizer", false)
      ->required();
  add_machine_flags(*app, flags->machine);
  add_size_flags(*app, *flags);
  add_precision_flags(*app, *flags);
  add_value(*app, "--runtime", joined_words(kRuntimeWords),
            "how launches reach the GPU: CUDA graph, queued stream, one by one from Python [the stack's]",
            [flags](const std::string& text) { flags->runtime = chosen_word("--runtime", kRuntimeWords, text); });
  add_value(*app, "--fusion", joined_words(kFusionWords),
            "none: each framework op a kernel of its own; typical: today's serving stacks [the stack's]",
            [flags](const std::string& text) { flags->fusion = chosen_word("--fusion", kFusionWords, text); });
  add_output_flags(*app, flags->output, {Format::table, Format::json, Format::csv, Format::trace, Format::html});
  add_value(*app, "--explain", "[OP]", "the formula behind every operator's time, or behind this one's",
            [flags](const std::string& text) { flags->explain = text; })
      ->expected(0, 1);
  app->footer(
      "Latency is of one step. Exit code 1: the report is printed, but the model does not fit the GPU's memory.\n"
      "Examples:\n"
      "  predict-model llm --model llama-3.1-8b --gpu h200 --phase decode --batch 16 --context 4096\n"
      "  predict-model llm --model llama-3.1-8b --gpu h200 --phase prefill --prompt 2048 --dtype fp8 --explain "
      "attention\n"
      "  predict-model llm --model my/config.json --gpu h100_sxm --phase decode --set memory.bandwidth=4.8TB/s");
  app->callback([flags, &action] { action = [flags] { return run_llm(*flags); }; });
}

}  // namespace plumbline::cli
