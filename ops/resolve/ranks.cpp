#include "ops/resolve/ranks.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "arch/error.hpp"
#include "ops/as_double.hpp"
#include "ops/graph/nearest.hpp"
#include "ops/step/types.hpp"

namespace plumbline::lowering {
namespace {

using Role = StackSpec::Role;

/// Shares of the experts, the most popular first where a power says it, else in the model's order; they sum to 1.
std::vector<double> shares_of(const ExpertLoad& load, std::int64_t experts) {
  std::vector<double> shares = load.counts;
  if (shares.empty()) {
    shares.resize(static_cast<std::size_t>(experts));
    for (std::size_t i = 0; i < shares.size(); ++i) shares[i] = std::pow(static_cast<double>(i + 1), -load.power);
  }
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

/// Share of the rank that gets most, and of its hottest expert.
struct Fullest {
  double rank = 0, hottest = 0;
};

Fullest fullest_of(const ExpertLoad& load, std::int64_t experts, std::int64_t ranks) {
  const std::vector<double> shares = shares_of(load, experts);
  const auto per_rank = static_cast<std::size_t>(ceil_div(experts, ranks));
  const bool in_turn = load.counts.empty();
  std::vector<Fullest> all(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < shares.size(); ++i) {
    Fullest& rank = all[in_turn ? i % all.size() : i / per_rank];
    rank.rank += shares[i];
    rank.hottest = std::max(rank.hottest, shares[i]);
  }
  return *std::max_element(all.begin(), all.end(), [](const Fullest& a, const Fullest& b) { return a.rank < b.rank; });
}

bool has_exchanged_experts(const StackSpec& stack, const Workload& w) {
  return std::any_of(stack.kinds.begin(), stack.kinds.end(),
                     [&](const LayerSpec& l) { return l.ffn && l.ffn->is_moe() && expert_plan(w, *l.ffn).exchanged; });
}

void refuse_heads(const Llm& llm, const std::string& place, std::int64_t tensor) {
  for (const StackSpec& stack : llm.stacks) {
    if (stack.role == Role::vision && &stack != &llm.main()) continue;
    for (const LayerSpec& l : stack.kinds) {
      for (const LayerMixer* part : {&l.mixer, &l.feed}) {
        if (!*part || (*part)->splits_ranks()) continue;
        throw NotModelled(place + ": tp " + std::to_string(tensor) + ": block '" + std::string((*part)->block()) +
                          "' does not say how ranks share it: expected \"split\" on a linear, or tp in a shape");
      }
      const std::int64_t heads = l.mixer ? l.mixer->split_heads() : 0;
      if (heads == 0 || heads % tensor == 0) continue;
      throw BadInput(place + ": tp " + std::to_string(tensor) + ": expected a divisor of the " + std::to_string(heads) +
                     " heads; nearest: " + nearest_divisors(heads, tensor));
    }
  }
}

void refuse_context_split(const Llm& llm, const Workload& w, const std::string& place) {
  const std::string flag = place + ": cp " + std::to_string(w.parallel.context) + ": ";
  if (llm.main().role != Role::decoder) {
    throw NotModelled(flag + "context parallelism is modelled of a decoder alone");
  }
  if (w.phase == Phase::train && (w.training.eager || w.parallel.zero > 1)) {
    throw NotModelled(flag + "in training it is modelled of stacks that fuse, with zero 0 or 1");
  }
  for (const LayerSpec& l : llm.main().kinds) {
    if (l.cross || (l.mixer && !l.mixer->splits_context())) {
      throw NotModelled(flag + "context parallelism is modelled of full and latent attention alone");
    }
  }
  const std::int64_t tokens = w.phase == Phase::decode ? w.context + 1 : w.prompt;
  if (tokens < w.parallel.context) {
    throw BadInput(flag + "expected at most the " + std::to_string(tokens) + " tokens of a sequence");
  }
}

void refuse_pipeline(const Llm& llm, const Workload& w, const std::string& place) {
  const std::string flag = place + ": pp " + std::to_string(w.parallel.pipeline) + ": ";
  const auto layers = static_cast<std::int64_t>(llm.main().order.size());
  if (w.parallel.pipeline > layers) {
    throw BadInput(flag + "expected at most its " + std::to_string(layers) + " layers");
  }
  const bool encodes = std::any_of(llm.stacks.begin(), llm.stacks.end(),
                                   [](const StackSpec& stack) { return stack.role == Role::encoder; });
  if (encodes && llm.main().role != Role::encoder) {
    throw NotModelled(flag + "pipelines of an encoder and a decoder are not modelled");
  }
}

void refuse_experts(const Llm& llm, const Workload& w, const std::string& place) {
  std::int64_t experts = 0;
  for (const LayerSpec& l : llm.main().kinds) {
    if (l.ffn && l.ffn->is_moe()) experts = std::max(experts, l.ffn->experts);
  }
  const std::string flag = place + ": ep " + std::to_string(w.parallel.expert) + ": ";
  if (w.parallel.expert > 1 && experts == 0) throw BadInput(flag + "expected 1: the model has no experts");
  if (w.parallel.expert > 1 && w.parallel.expert > experts) {
    throw BadInput(flag + "expected at most its " + std::to_string(experts) + " experts");
  }
  const auto given = static_cast<std::int64_t>(w.expert_load.counts.size());
  if (!w.expert_load.even() && experts == 0) {
    throw BadInput(place + ": expert load: has no meaning: the model has no experts");
  }
  if (given > 0 && given != experts) {
    throw BadInput(place + ": expert load: expected " + std::to_string(experts) + " counts, one an expert; found " +
                   std::to_string(given));
  }
}

void refuse_scattering(const Llm& llm, const Workload& w, const std::string& place) {
  if (llm.main().role == Role::decoder && llm.stacks.size() == 1) return;
  const auto beside = [&](const StackSpec& stack) { return stack.role == Role::vision || &stack == &llm.main(); };
  const bool alone = llm.main().role == Role::decoder && std::all_of(llm.stacks.begin(), llm.stacks.end(), beside);
  if (alone && w.phase != Phase::train) return;
  throw NotModelled(place +
                    ": a residual stream that is split over tensor ranks (sp, attention-dp, ep beyond tp) is "
                    "modelled of a decoder's prefill and decode alone");
}

/// DeepSeek's code asks for as much: an even number of ranks, and of micro-batches, two a rank at least.
void check_dual_pipe(const Workload& w, const std::string& place) {
  const std::int64_t stages = w.parallel.pipeline, parts = micro_batches(w);
  const std::string flag = place + ": schedule dualpipe: ";
  if (stages % 2 != 0) {
    throw BadInput(flag + "expected an even pp, as micro-batches come from both ends; nearest: " +
                   (stages > 1 ? std::to_string(stages - 1) + " and " : "") + std::to_string(stages + 1));
  }
  if (parts % 2 != 0 || parts < 2 * stages) {
    throw BadInput(flag + "expected an even number of micro-batches, at least 2 x pp = " + std::to_string(2 * stages) +
                   "; found " + std::to_string(parts));
  }
}

/// The V form asks for two micro-batches a rank, and for layers for each of two stages.
void check_dual_pipe_v(const Llm& llm, const Workload& w, const std::string& place) {
  const std::int64_t ranks = w.parallel.pipeline, parts = micro_batches(w);
  const std::string flag = place + ": schedule dualpipe-v: ";
  const auto layers = static_cast<std::int64_t>(llm.main().order.size());
  if (ranks < 2 || 2 * ranks > layers) {
    throw BadInput(flag + "expected pp from 2 to " + std::to_string(layers / 2) + ", each rank with two parts of the " +
                   std::to_string(layers) + " layers");
  }
  if (parts < 2 * ranks) {
    throw BadInput(flag + "expected at least 2 x pp = " + std::to_string(2 * ranks) + " micro-batches; found " +
                   std::to_string(parts));
  }
}

void check_schedule(const Llm& llm, const Workload& w, const std::string& place) {
  const std::int64_t stages = w.parallel.pipeline, chunks = w.training.chunks;
  const bool interleaved = w.training.schedule == PipelineSchedule::interleaved;
  // embedding and head may take a layer's place each in the split (Megatron's account_for_embedding_in_pipeline_split)
  const auto divides = [&](std::int64_t all) { return all % (stages * chunks) == 0; };
  const std::string vp = place + ": vp " + std::to_string(chunks) + ": ";
  if (w.training.schedule == PipelineSchedule::dual_pipe) check_dual_pipe(w, place);
  if (w.training.schedule == PipelineSchedule::dual_pipe_v) check_dual_pipe_v(llm, w, place);
  if (chunks > 1 && !interleaved) throw BadInput(vp + "expected it with schedule interleaved");
  if (!interleaved) return;
  if (stages == 1 || chunks == 1) throw BadInput(place + ": schedule interleaved: expected pp and vp of at least 2");
  const auto layers = static_cast<std::int64_t>(llm.main().order.size());
  if (!divides(layers) && !divides(layers + 2)) {
    throw BadInput(vp + "expected the " + std::to_string(layers) + " layers to divide by pp x vp");
  }
  if (micro_batches(w) % stages != 0) {
    throw BadInput(place + ": schedule interleaved: expected the " + std::to_string(micro_batches(w)) +
                   " micro-batches to divide by pp " + std::to_string(stages));
  }
}

/// On shares of tensors (fully_shard's DTensor) PyTorch 2.11 itself refuses Adafactor, whose square of a norm would be
/// taken in place on parts of it, and bitsandbytes' operator, which has no rule for shares. Muon asks for matrices, which
/// parts of a flat tensor are not, and takes each by itself. ZeroRedundancyOptimizer takes any class, of which those that go
/// through lists are on file here. Replicas that are whole (DistributedDataParallel) update all of their parameters each.
void refuse_optimizer(const Workload& w, const std::string& place) {
  const Optimizer o = w.training.optimizer;
  const std::string flag = place + ": optimizer: ";
  const bool by_tensor =
      o == Optimizer::muon || o == Optimizer::adafactor || o == Optimizer::adam8bit || o == Optimizer::adamw_loop;
  if (w.training.eager && w.parallel.pipeline > 1 && by_tensor) {
    throw NotModelled(flag +
                      "loops over the tensors of a pipeline's stage are not modelled; expected adamw, sgd or --pp 1");
  }
  if (!w.training.eager || w.parallel.data == 1 || w.parallel.zero == 0) return;
  if (w.parallel.zero == 1 && by_tensor) {
    throw NotModelled(flag +
                      "of ZeroRedundancyOptimizer adam, adamw, adamw-fused, sgd and sgd-plain are on file; expected "
                      "one of them, or --zero 0");
  }
  if (o == Optimizer::adamw_loop) {
    throw NotModelled(flag + "adamw-loop on shares of tensors is not on file; expected adamw, or --zero 0");
  }
  if (o == Optimizer::muon && w.training.flat_shards) {
    throw NotModelled(flag + "PyTorch's Muon takes matrices, and shares of a flat tensor are none; expected --fsdp 2");
  }
  if (o == Optimizer::adafactor || o == Optimizer::adam8bit) {
    throw NotModelled(flag + "PyTorch's shards run neither adafactor nor adam8bit; expected --zero 0");
  }
}

void refuse_offload(const Workload& w, const std::string& place) {
  const Training& t = w.training;
  if (t.offload == Offload::none) return;
  const std::string flag = place + ": offload: ";
  if (t.eager) throw NotModelled(flag + "of stacks that fuse alone; expected none, or --stack megatron");
  if (t.offload == Offload::optimizer) return;
  if (t.recompute == Recompute::full || t.recompute == Recompute::products) {
    throw BadInput(flag +
                   "layers that are computed again keep next to nothing that could wait in the host's memory; "
                   "expected --recompute none or selective with activations");
  }
  if (w.parallel.pipeline > 1) {
    throw NotModelled(flag +
                      "activations wait for a micro-batch's own backward pass, which in a pipeline comes later; "
                      "expected pp 1, or optimizer");
  }
}

void refuse_recomputed_layers(const Llm& llm, const Workload& w, const std::string& place) {
  const Training& t = w.training;
  if (t.recomputed_layers == 0) return;
  const std::string flag = place + ": recompute-layers " + std::to_string(t.recomputed_layers) + ": ";
  const std::size_t layers = llm.main().order.size();
  if (t.recompute != Recompute::full) throw BadInput(flag + "expected it with recompute full");
  if (t.recomputed_layers > static_cast<std::int64_t>(layers)) {
    throw BadInput(flag + "expected at most the model's " + std::to_string(layers));
  }
  if (t.eager) throw NotModelled(flag + "of stacks that fuse alone; expected all layers, or --stack megatron");
  if (w.parallel.pipeline > 1) throw NotModelled(flag + "not modelled in a pipeline; expected all layers, or pp 1");
  if (llm.stacks.size() > 1) throw NotModelled(flag + "not modelled beside further towers; expected all layers");
}

void refuse_training(const Llm& llm, const Workload& w, const std::string& place) {
  const ParallelPlan& p = w.parallel;
  const bool beside = replicas_beside(w.overlap) && !w.training.eager;
  if (w.overlap != Overlap::none && !beside) throw NotModelled(place + ": overlap: training is not modelled with it");
  if (p.attention_data) throw NotModelled(place + ": attention-dp: training is not modelled with it");
  if (p.expert > 1 && w.training.eager) {
    throw NotModelled(place + ": ep " + std::to_string(p.expert) +
                      ": eager frameworks train all experts on each replica; expected 1, or --stack megatron");
  }
  if (w.training.flat_shards && !(w.training.eager && p.zero >= 2)) {
    throw BadInput(place + ": fsdp 1: expected it of an eager framework (hf-sdpa, hf-eager) with zero 2 or 3");
  }
  const Recompute again = w.training.recompute;  // gradient checkpointing of an eager framework takes whole layers
  if (w.training.eager && (again == Recompute::products || again == Recompute::selective)) {
    throw NotModelled(place + ": recompute " + (again == Recompute::products ? "products" : "selective") +
                      ": modelled of stacks that fuse; expected none or full");
  }
  if (w.training.eager && p.pipeline > 1 && p.data > 1) {
    throw NotModelled(place + ": dp " + std::to_string(p.data) +
                      ": what replicas of an eager framework's pipeline exchange is not modelled; expected 1, or "
                      "--stack megatron");
  }
  if (p.zero > 1 && p.pipeline > 1 && w.training.two_stages()) {
    throw NotModelled(place + ": zero " + std::to_string(p.zero) +
                      ": gradients that replicas share are reduced behind each micro-batch, which is not modelled of "
                      "ranks that hold two stages (dualpipe); expected 0 or 1");
  }
  check_schedule(llm, w, place);
  refuse_recomputed_layers(llm, w, place);
  refuse_offload(w, place);
  refuse_optimizer(w, place);
}

}  // namespace

std::int64_t replica_batch(const Workload& w) { return ceil_div(w.batch, w.parallel.data); }

std::int64_t micro_batches(const Workload& w) {
  if (w.phase == Phase::train && w.parallel.micro_batches == 0) {
    const bool whole = w.training.micro_batch == 0 && w.parallel.pipeline == 1;
    return whole ? 1 : ceil_div(replica_batch(w), std::max<std::int64_t>(1, w.training.micro_batch));
  }
  if (w.parallel.pipeline == 1 && w.phase != Phase::train) return 1;
  if (w.parallel.micro_batches > 0) return w.parallel.micro_batches;
  return std::min(w.parallel.pipeline, replica_batch(w));
}

Workload rank_workload(const Workload& w) {
  Workload rank = w;
  rank.batch = ceil_div(replica_batch(w), micro_batches(w));
  return rank;
}

ExpertPlan expert_plan(const Workload& w, const FfnSpec& ffn) {
  const ParallelPlan& p = w.parallel;
  ExpertPlan plan;
  plan.ranks = p.expert;
  plan.width_split = p.expert == 1 ? p.tensor : std::max<std::int64_t>(1, p.tensor / p.expert);
  plan.exchanged = p.expert > p.tensor || (p.attention_data && p.expert == p.tensor);
  if (w.expert_load.even() || ffn.experts == 0) return plan;
  const Fullest fullest = fullest_of(w.expert_load, ffn.experts, plan.ranks);
  // a token goes to an expert once: no rank gets more than its experts can take of every token
  const std::int64_t held = std::min(ffn.topk, ceil_div(ffn.experts, plan.ranks));
  plan.fullest = std::min(fullest.rank * d(plan.ranks), d(held * plan.ranks) / d(ffn.topk));
  const double mean = fullest.rank / d(ceil_div(ffn.experts, plan.ranks));
  plan.skew = std::clamp(100 * (fullest.hottest / mean - 1), 0.0, 100.0);
  return plan;
}

bool scattered(const Llm& llm, const Workload& w) {
  const ParallelPlan& p = w.parallel;
  if (p.tensor == 1) return false;
  return p.sequence || p.attention_data || has_exchanged_experts(llm.main(), w);
}

StageLayers stage_layers(std::int64_t layers, std::int64_t stages, std::int64_t stage) {
  const std::int64_t each = layers / stages, longer = layers % stages;
  const std::int64_t first = stage * each + std::min(stage, longer);
  return {first, first + each + (stage < longer ? 1 : 0)};
}

std::vector<std::int64_t> layers_by_kind(const StackSpec& stack, const StageLayers& range) {
  std::vector<std::int64_t> count(stack.kinds.size());
  for (std::int64_t i = range.first; i < range.last; ++i) {
    ++count[static_cast<std::size_t>(stack.order[static_cast<std::size_t>(i)])];
  }
  return count;
}

std::vector<std::int64_t> layers_of_stage(const Llm& llm, const StackSpec& stack, std::int64_t stages,
                                          std::int64_t stage) {
  const auto layers = static_cast<std::int64_t>(stack.order.size());
  StageLayers range{0, layers};
  if (&stack == &llm.main()) range = stage_layers(layers, stages, stage);
  else if (stage > 0) range = {0, 0};
  return layers_by_kind(stack, range);
}

void refuse_plan(const Llm& llm, const Workload& w) {
  const ParallelPlan& p = w.parallel;
  const std::string place = llm.file.empty() ? llm.name : llm.file;
  if (p.tensor > 1 && !p.attention_data) refuse_heads(llm, place, p.tensor);
  if (p.pipeline > 1) refuse_pipeline(llm, w, place);
  if (w.phase == Phase::train) refuse_training(llm, w, place);
  if (p.expert > 1 || !w.expert_load.even()) refuse_experts(llm, w, place);
  if (p.context > 1) refuse_context_split(llm, w, place);
  if (scattered(llm, w)) refuse_scattering(llm, w, place);
}

bool allowed(const Llm& llm, const Workload& w) {
  try {
    check(w);
    refuse_plan(llm, w);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace plumbline::lowering
