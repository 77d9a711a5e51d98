// predict-model plan: all legal ways to spread a model over N GPUs, ranked.

#include "arch/format.hpp"
#include "model/cli/common.hpp"
#include "model/cli/model_flags.hpp"
#include "model/cli/parallel.hpp"
#include "model/cli/training.hpp"
#include "model/plan_search.hpp"
#include "model/question/question.hpp"
#include "model/report/several_gpus/plan_report.hpp"
#include "model/stacks/stack.hpp"
#include "model/words.hpp"

namespace plumbline::cli {
namespace {

enum class Asked { prefill, decode, train };
constexpr std::array<Word<Asked>, 3> kAskedWords{
    {{"prefill", Asked::prefill}, {"decode", Asked::decode}, {"train", Asked::train}}};
constexpr std::array<Word<PlanGoal>, 3> kGoalWords{
    {{"latency", PlanGoal::latency}, {"tokens/s/gpu", PlanGoal::tokens_per_s}, {"tokens/J", PlanGoal::tokens_per_J}}};

struct PlanFlags {
  std::string model, reserve;
  MachineFlags machine;
  OutputFlags output;
  Asked asked = Asked::decode;
  Workload workload;
  LlmQuestion trained;  ///< its flags of training
  PlanQuestion question;
  std::int64_t top = 20;
  std::optional<Overlap> overlap;  ///< as much of it as a plan has; else the stack's
  bool prompt_given = false, context_given = false;
};

void refuse_idle_lengths(const PlanFlags& f) {
  if (f.asked == Asked::decode && f.prompt_given) throw BadInput("--prompt: has no meaning with --phase decode");
  if (f.asked == Asked::train && f.context_given) throw BadInput("--context: has no meaning with --phase train");
  if (f.asked == Asked::train || f.trained.training_given.empty()) return;
  throw BadInput(f.trained.training_given + ": has no meaning without --phase train");
}

/// What is trained as `llm` would ask for it.
void train(Workload& workload, const PlanFlags& f, const Stack& stack) {
  workload.phase = Phase::train;
  workload.training = f.trained.workload.training;
  workload.parallel.zero = f.trained.workload.parallel.zero;
  workload.training.written_out = stack.written_out_attention;
  workload.training.score_bytes = stack.score_kept.in(units::B);
  if (!stack.trains_eagerly()) return;
  train_eagerly(workload);
  workload.fused_attention = stack.fused_attention;
}

ExitCode run_plan(const PlanFlags& f) {
  refuse_idle_lengths(f);
  const Machine machine = open_machine(f.machine);
  const Llm llm = load_llm(f.model);
  Workload workload = f.workload;
  workload.phase = f.asked == Asked::decode ? Phase::decode : Phase::prefill;
  workload.fusion = machine.stack().fusion;
  if (f.asked == Asked::train) train(workload, f, machine.stack());
  settle_attention(llm, machine.stack(), workload);
  if (workload.parallel.sequence && workload.parallel.attention_data) {
    throw BadInput("--sp: expected it without --attention-dp, which splits the residual stream by sequences");
  }
  workload.overlap = f.overlap.value_or(machine.stack().overlap);
  if (workload.phase == Phase::prefill && f.context_given) workload.cached = f.workload.context;
  PlanQuestion question = f.question;
  question.reserve = reserve_of(f.reserve, machine.gpu().memory.usable_capacity());
  Workload of_one = workload;
  of_one.parallel = {};
  of_one.parallel.zero = workload.parallel.zero;
  check(of_one);
  Predictor predictor;
  const RunOptions run{machine.stack().runtime};
  const PlanRanking ranking = rank_plans(predictor, llm, workload, machine, run, question);
  if (ranking.not_modelled > 0 && ranking.not_modelled + ranking.too_large == ranking.legal) {
    throw NotModelled("none of the " + std::to_string(ranking.not_modelled) +
                      " plans that fit has a price: collectives on " + machine.gpu().name);
  }
  PlanReport report{llm, workload, machine, question, ranking, f.top, {}};
  Workload any = workload;
  any.parallel.tensor = question.gpus;
  report.remarks = parallel_remarks(any, machine, !f.machine.cluster.empty());
  switch (f.output.format) {
    case Format::json: deliver(f.output, plan_json(report)); break;
    case Format::csv: deliver(f.output, plan_csv(report)); break;
    case Format::html: deliver(f.output, plan_html(report)); break;
    default: deliver(f.output, plan_table(report, style_for(f.output)));
  }
  return ranking.plans.empty() ? ExitCode::answered_no : ExitCode::done;
}

}  // namespace

void add_plan_command(const Command& root, Action& action) {
  auto flags = std::make_shared<PlanFlags>();
  flags->machine.clock = ClockMode::steady;
  const Command app = root.subcommand("plan", "all legal ways to spread a model over N GPUs, ranked by a goal");
  app.text("--model", "NAME|FILE|FOLDER", "a name from 'list models', a Hugging Face config.json, or its folder",
           flags->model)
      .required();
  app.value("--gpus", "N", "GPUs in all",
            [flags](const std::string& text) { flags->question.gpus = whole_number("--gpus", text, 1, 1 << 20); })
      .required();
  add_choice(app, "--phase", kAskedWords, flags->asked, "the prompt; one token per sequence; an iteration");
  add_choice(app, "--goal", kGoalWords, flags->question.goal, "what plans are ranked by");
  app.value("--max-latency", "TIME", "drop plans whose step takes longer: 30ms",
            [flags](const std::string& text) { flags->question.most_latency = parse_seconds(text); });
  app.value("--min-tokens-per-s", "N", "drop plans that make fewer, all GPUs together",
            [flags](const std::string& text) {
              flags->question.least_tokens_per_s =
                  static_cast<double>(whole_number("--min-tokens-per-s", text, 1, 1LL << 40));
            });
  app.toggle("--sp", "plans with tp above 1 split tokens over the tp ranks", flags->workload.parallel.sequence);
  app.toggle("--attention-dp", "... have attention whole on each tp rank", flags->workload.parallel.attention_data);
  add_machine_flags(app, flags->machine);
  add_size_flags(app, flags->workload);
  add_training_flags(app, flags->trained);
  add_precision_flags(app, flags->workload);
  add_reserve_flag(app, flags->reserve);
  app.value("--overlap", joined_words(kOverlapWords), "what runs beside compute, where a plan has it [the stack's]",
            [flags](const std::string& text) { flags->overlap = chosen_word("--overlap", kOverlapWords, text); });
  add_output_flags(app, flags->output, {Format::table, Format::json, Format::csv, Format::html});
  add_whole(app, "--top", "plans in the table; 0: all [20]", flags->top, 0);
  app.footer(
      "Ranks (tp, pp, cp, dp, ep) with tp x pp x cp x dp = N; those that do not fit are counted. Exit code 1: no plan\n"
      "is left. Training has the flags that llm has for it. Example:\n"
      "  predict-model plan --model llama-3.1-70b --gpu h200 --gpus 8 --batch 64 --context 8k --goal tokens/s/gpu");
  app.when_chosen([flags, app, &action] {
    flags->prompt_given = app.given("--prompt");
    flags->context_given = app.given("--context");
    if (flags->asked == Asked::train && !app.given("--stack")) flags->machine.stack.name = kTrainingStack;
    action = [flags] { return run_plan(*flags); };
  });
}

}  // namespace plumbline::cli
