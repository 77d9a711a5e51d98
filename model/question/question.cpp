#include "model/question/question.hpp"

#include <algorithm>

#include "arch/error.hpp"
#include "model/question/words.hpp"
#include "model/stacks/common/collective_choice.hpp"
#include "ops/lower/two_batch.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

std::string digits_of(std::int64_t n) { return std::to_string(n); }

Phase step_phase(AskedPhase asked) {
  switch (asked) {
    case AskedPhase::decode: return Phase::decode;
    case AskedPhase::train: return Phase::train;
    default: return Phase::prefill;
  }
}

/// The encoder whose input the prompt is.
bool encodes_the_prompt(const Llm& llm) {
  return llm.main().role == StackSpec::Role::decoder &&
         std::any_of(llm.stacks.begin(), llm.stacks.end(), [](const StackSpec& stack) {
           return stack.role == StackSpec::Role::encoder && stack.fixed_tokens == 0;
         });
}

void refuse_flag(const std::string& flag, const LlmQuestion& q, const std::string& expected) {
  throw BadInput(flag + ": has no meaning with --phase " + std::string(word_of(kAskedPhaseWords, q.phase)) +
                 ": expected " + expected);
}

}  // namespace

Op OpQuestion::shape() const {
  std::string text;
  for (const auto& [key, value] : keys) text += (text.empty() ? "" : ";") + key + "=" + value;
  return parse_op(op, dtype, text);
}

void settle_degrees(const ParallelChoice& choice, ParallelPlan& plan) {
  if (!choice.gpus_given || settle_tensor(plan, choice.gpus, choice.tensor_given)) return;
  throw BadInput("--gpus " + digits_of(choice.gpus) + ": expected tp x pp x cp x dp, found " + digits_of(plan.tensor) +
                 " x " + digits_of(plan.pipeline) + " x " + digits_of(plan.context) + " x " + digits_of(plan.data) +
                 " = " + digits_of(plan.ranks()));
}

void settle_attention(const Llm& llm, const Stack& stack, Workload& workload) {
  workload.fused_attention = workload.fused_attention && stack.fuses_attention_of(llm.model_type);
}

Overlap settle_overlap(OverlapChoice choice, const Llm& llm, const Workload& workload, const Stack& stack) {
  Workload asked = workload;
  switch (choice) {
    case OverlapChoice::none: return Overlap::none;
    case OverlapChoice::stack: return lowering::possible_overlap(stack.overlap, llm, workload);
    case OverlapChoice::two_batch: asked.overlap = Overlap::two_batch; break;
    case OverlapChoice::sends: asked.overlap = Overlap::sends; break;
    case OverlapChoice::async_tp: asked.overlap = Overlap::async_tp; break;
    case OverlapChoice::replicas: asked.overlap = Overlap::replicas; break;
    case OverlapChoice::iteration: asked.overlap = Overlap::iteration; break;
    case OverlapChoice::experts: asked.overlap = Overlap::experts; break;
    case OverlapChoice::full: asked.overlap = lowering::possible_overlap(Overlap::full, llm, workload); break;
  }
  lowering::refuse_overlap(llm, asked);
  if (asked.overlap == Overlap::none) {
    throw BadInput(
        "--overlap full: nothing of this plan can run beside compute: expected ranks that exchange data within a layer "
        "and two sequences a rank, a pipeline of two micro-batches, or tokens split over the tensor ranks");
  }
  return asked.overlap;
}

Workload settled_sizes(const LlmQuestion& q, const Stack& stack) {
  Workload workload = q.workload;
  workload.phase = step_phase(q.phase);
  workload.fusion = q.fusion.value_or(stack.fusion);
  if (workload.phase == Phase::prefill && q.context_given) workload.cached = q.workload.context;
  workload.training.written_out = workload.phase == Phase::train && stack.written_out_attention;
  workload.training.score_bytes = stack.score_kept.in(units::B);
  if (workload.phase == Phase::train && stack.trains_eagerly() && workload.fusion == stack.fusion) {
    train_eagerly(workload);
    workload.fused_attention = stack.fused_attention;  // what fits is asked of this workload
  }
  settle_degrees(q.parallel, workload.parallel);
  check(workload);
  return workload;
}

void refuse_idle_lengths(const LlmQuestion& q, const Llm& llm) {
  if (q.output_given && q.phase != AskedPhase::generate) refuse_flag("--output", q, "it with --phase generate");
  if (q.phase == AskedPhase::decode && q.prompt_given && !encodes_the_prompt(llm)) {
    refuse_flag("--prompt", q,
                "--context, the tokens in the cache (" + llm.name + " has no encoder that reads a prompt)");
  }
  if (q.phase == AskedPhase::train && q.context_given) refuse_flag("--context", q, "--prompt");
  if (q.phase == AskedPhase::train && q.workload.kv_dtype_given)
    refuse_flag("--kv-dtype", q, "it where a cache is kept");
  if (q.phase != AskedPhase::train && !q.training_given.empty()) {
    refuse_flag(q.training_given, q, "it with --phase train");
  }
}

void refuse_idle_attention(const StackChoice& stack, const std::vector<std::string_view>& used,
                           const std::string& what) {
  if (stack.attention.empty()) return;
  const std::string_view provider = attention_provider(stack.attention);
  if (std::find(used.begin(), used.end(), provider) != used.end()) return;
  throw BadInput("--attention " + stack.attention + ": runs no operator of " + what);
}

void refuse_idle_collective(const StackChoice& stack, bool any, const std::string& what) {
  if (!is_forced(stack.collective, stack.protocol) || any) return;
  throw BadInput("--collective " + collective_text(stack) + ": no collective that goes so in " + what);
}

bool has_said_way(const StackChoice& stack, const Op& op) {
  const auto* collective = std::get_if<Collective>(&op);
  if (collective == nullptr) return false;
  // messages of an exchange choose their protocol by their lengths, whatever NCCL is told
  return collective->kind != CollectiveKind::all_to_all || stack.protocol == CollectiveProtocol::automatic;
}

void refuse_idle_choices(const StackChoice& stack, const StepPrediction& step) {
  if (stack.attention.empty() && !is_forced(stack.collective, stack.protocol)) return;
  std::vector<std::string_view> used;
  for (const NodePrediction& n : step.nodes) used.push_back(n.op.provider);
  refuse_idle_attention(stack, used, "this step");
  const bool any = std::any_of(step.nodes.begin(), step.nodes.end(), [&](const NodePrediction& n) {
    const auto* collective = std::get_if<Collective>(&n.node->op);
    if (collective == nullptr) return false;
    // tokens go to experts by NCCL's exchange then
    return collective->kind == CollectiveKind::all_to_all ||
           goes_as_said(stack.collective, stack.protocol, collective->kind);
  });
  refuse_idle_collective(stack, any, "this step");
}

}  // namespace plumbline
