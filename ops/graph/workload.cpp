#include "ops/graph/workload.hpp"

#include <algorithm>
#include <string>

#include "arch/error.hpp"
#include "ops/graph/nearest.hpp"

namespace plumbline {
namespace {

/// Of a size, and of the tokens of a step: products with any width of a model stay far inside 64 bits.
constexpr std::int64_t kMost = std::int64_t{1} << 40;
/// GPUs of one plan.
constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;

void at_least(std::int64_t value, std::int64_t least, const char* flag) {
  if (value >= least && value <= kMost) return;
  throw BadInput(std::string(flag) + ": expected a whole number from " + std::to_string(least) + " to 2^40, found " +
                 std::to_string(value));
}

void few_enough(std::int64_t batch, std::int64_t length, const char* flag) {
  if (length <= kMost / batch) return;
  throw BadInput(std::string("batch ") + std::to_string(batch) + ", " + flag + " " + std::to_string(length) +
                 ": expected at most 2^40 tokens in all");
}

/// Each from 1, and few enough GPUs in all that products stay inside 64 bits.
void need_degrees(const ParallelPlan& p) {
  at_least(p.tensor, 1, "tp");
  at_least(p.pipeline, 1, "pp");
  at_least(p.data, 1, "dp");
  at_least(p.expert, 1, "ep");
  at_least(p.context, 1, "cp");
  std::int64_t room = kMostRanks;
  for (const std::int64_t degree : {p.tensor, p.pipeline, p.data, p.context}) {
    if (degree > room) throw BadInput("tp x pp x cp x dp: expected at most 2^20 GPUs");
    room /= degree;
  }
}

void check_micro_batch(const Workload& w, std::int64_t replica) {
  const std::int64_t micro_batch = w.training.micro_batch;
  at_least(micro_batch, 0, "micro-batch");
  at_least(w.training.chunks, 1, "vp");
  if (micro_batch > replica) {
    throw BadInput("micro-batch " + std::to_string(micro_batch) + ": expected at most the " + std::to_string(replica) +
                   " sequences of a replica");
  }
  if (micro_batch > 0 &&
      replica % micro_batch != 0) {  // as Megatron-LM asserts (megatron/core/num_microbatches_calculator.py)
    throw BadInput("micro-batch " + std::to_string(micro_batch) + ": expected a divisor of the " +
                   std::to_string(replica) +
                   " sequences of a replica, as all micro-batches have the same size; nearest: " +
                   nearest_divisors(replica, micro_batch));
  }
  if (micro_batch > 0 && w.parallel.micro_batches > 0) {
    throw BadInput("micro-batches: expected it without micro-batch, which says their number too");
  }
}

/// What holds of any model.
void check_plan(const Workload& w) {
  const ParallelPlan& p = w.parallel;
  need_degrees(p);
  if (p.zero < 0 || p.zero > 3) throw BadInput("zero: expected 0, 1, 2 or 3");
  if (p.zero > 0 && w.phase != Phase::train) {
    throw BadInput("zero: expected it with phase train: inference keeps no optimizer states");
  }
  if (p.stage_ranks() % p.expert != 0) {
    throw BadInput("ep " + std::to_string(p.expert) +
                   ": expected a divisor of tp x cp x dp = " + std::to_string(p.stage_ranks()) +
                   ", the ranks that experts live on; nearest: " + nearest_divisors(p.stage_ranks(), p.expert));
  }
  if (p.expert % p.tensor != 0 && p.tensor % p.expert != 0) {
    throw BadInput("ep " + std::to_string(p.expert) + ": expected a multiple or a divisor of tp " +
                   std::to_string(p.tensor));
  }
  if (p.sequence && p.tensor == 1) throw BadInput("sp: expected tp of at least 2: tokens are split over its ranks");
  if (p.attention_data && p.tensor == 1) {
    throw BadInput("attention-dp: expected tp of at least 2: attention is whole on each of its ranks");
  }
  if (p.sequence && p.attention_data) {
    throw BadInput("sp: expected it without attention-dp, which splits the residual stream by sequences");
  }
  at_least(p.micro_batches, 0, "micro-batches");
  if (p.micro_batches > 0 && p.pipeline == 1 && w.phase != Phase::train) {
    throw BadInput("micro-batches: expected pp of at least 2");
  }
  const std::int64_t replica = (w.batch + p.data - 1) / p.data;
  if (p.micro_batches > replica) {
    throw BadInput("micro-batches " + std::to_string(p.micro_batches) + ": expected at most the " +
                   std::to_string(replica) + " sequences of a replica");
  }
  if (w.phase == Phase::train) check_micro_batch(w, replica);
  if (!(w.expert_load.power >= 0 && w.expert_load.power <= 10)) {
    throw BadInput("expert load: expected a power from 0 to 10");
  }
}

}  // namespace

bool settle_tensor(ParallelPlan& plan, std::int64_t gpus, bool tensor_given) {
  need_degrees(plan);
  const std::int64_t others = plan.pipeline * plan.context * plan.data;
  if (!tensor_given) plan.tensor = std::max<std::int64_t>(1, gpus / others);
  return plan.tensor * others == gpus;
}

void check(const Workload& workload) {
  at_least(workload.batch, 1, "batch");
  if (workload.phase == Phase::decode) at_least(workload.context, 0, "context");
  at_least(workload.cached, 0, "cached context");
  if (workload.cached > 0 && workload.phase != Phase::prefill) {
    throw BadInput("cached context: expected it of a prefill alone");
  }
  at_least(workload.page, 0, "page");
  at_least(workload.prompt, 1, "prompt");  // in decode: what the encoder of an encoder-decoder read
  few_enough(workload.batch, workload.prompt, "prompt");
  if (workload.cached > 0) few_enough(workload.batch, workload.cached + workload.prompt, "cached context and prompt");
  if (workload.phase == Phase::decode) few_enough(workload.batch, workload.context + 1, "context");
  check_plan(workload);
}

void train_eagerly(Workload& workload) {
  workload.training.eager = true;
  workload.training.wide_shares = workload.parallel.zero >= 2;
  if (workload.training.gradient_given) return;
  workload.training.gradient = workload.precision_given ? workload.precision.output : DType::bf16;
}

}  // namespace plumbline
