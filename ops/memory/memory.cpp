// Weights, cache, optimizer and workspace; activations are in activations.cpp.
#include "ops/memory/memory.hpp"

#include <algorithm>
#include <vector>

#include "ops/as_double.hpp"
#include "ops/memory/parts.hpp"
#include "ops/resolve/ranks.hpp"
#include "ops/step/libraries.hpp"

namespace plumbline {
namespace {

using lowering::Lengths;
using lowering::Types;

/// A stage of the model's pipeline; without one, all of the model.
struct Stage {
  std::int64_t number = 0, of = 1;
  bool first() const { return number == 0; }
  bool last() const { return number + 1 == of; }
};

/// Layers of each kind in the stage, as (layer, repeats) calls. Stacks that do not run are in memory too.
template <class Visit>
void each_kind(const Llm& llm, const StackSpec& stack, const Stage& stage, Visit visit) {
  if (stage.of == 1) {
    std::vector<std::int64_t> repeats(stack.kinds.size(), 0);
    for (const int kind : stack.order) ++repeats[static_cast<std::size_t>(kind)];
    for (std::size_t i = 0; i < stack.kinds.size(); ++i) {
      if (repeats[i] > 0) visit(stack.kinds[i], static_cast<double>(repeats[i]));
    }
    return;
  }
  const std::vector<std::int64_t> repeats = lowering::layers_of_stage(llm, stack, stage.of, stage.number);
  for (std::size_t i = 0; i < stack.kinds.size(); ++i) {
    if (repeats[i] > 0) visit(stack.kinds[i], static_cast<double>(repeats[i]));
  }
}

/// Elements of the model by storage class. Norms over the hidden width and routers stay wide in every published
/// quantization (docs/sources.md: models); QK norms and biases are too few to matter.
struct Elements {
  double wide = 0, linear = 0, experts = 0;
  double shared = 0;  ///< of `linear`: shared experts that are whole on each tensor rank
  double all() const { return wide + linear + experts; }
};

/// Of one rank. Tensor ranks share everything but what runs whole on each: the mixers and the embedding of data-parallel
/// attention, and the shared experts where tokens travel to the routed ones.
Elements local(const Llm& llm, const Workload& w, const Stage& stage) {
  const ParallelPlan& p = w.parallel;
  const double tensor = d(p.tensor);
  Elements e;
  double whole = 0;  // of `linear`
  const double embedding = stage.first() ? llm.embedding_params : 0;
  e.wide = embedding + (stage.last() ? llm.head_params : 0);
  if (stage.last() && !stage.first() && llm.tied_embeddings) e.wide += llm.embedding_params;  // a copy
  for (const StackSpec& stack : llm.stacks) {
    if (&stack == &llm.main() ? stage.last() : stage.first()) e.wide += stack.other_params;
    each_kind(llm, stack, stage, [&](const LayerSpec& l, double layers) {
      const double repeats = stack.shared_weights ? 1 : layers / stack.passes;
      double wide = d(l.norms) * d(l.norm_vectors) * d(stack.hidden);
      if (l.ffn) wide += d(l.ffn->experts) * d(stack.hidden);
      e.wide += repeats * wide;
      e.linear += repeats * (l.params - l.expert_params - wide);
      double experts = repeats * l.expert_params;
      if (l.ffn && l.ffn->is_moe()) {
        const FfnSpec& f = *l.ffn;
        const lowering::ExpertPlan plan = lowering::expert_plan(w, f);
        experts *= d(lowering::ceil_div(f.experts, plan.ranks)) / d(f.experts) / d(plan.width_split);
        const double beside = d(f.shared_width + f.width);
        if (plan.exchanged) e.shared += repeats * (f.gated ? 3 : 2) * beside * d(stack.hidden);
      }
      // Experts that a graph file writes out: its tensor ranks share them as they do its other products.
      if (l.feed && l.feed->splits_ranks()) experts /= tensor;
      e.experts += experts;
      if (l.feed) whole += repeats * l.feed->whole_params(stack.hidden);
      if (!p.attention_data && l.mixer) whole += repeats * l.mixer->whole_params(stack.hidden);
      if (p.attention_data && l.mixer) whole += repeats * l.mixer->params(stack.hidden).total();
    });
  }
  const double whole_wide = p.attention_data ? embedding : 0;
  e.wide = whole_wide + (e.wide - whole_wide) / tensor;
  whole += e.shared;
  e.linear = whole + (e.linear - whole) / tensor;
  return e;
}

bool two_stages(const Workload& w) { return w.parallel.pipeline > 1 && w.training.two_stages(); }

/// The first stage of a rank of a pipeline.
Stage stage_of_rank(const Workload& w, std::int64_t rank) {
  const bool train = w.phase == Phase::train;
  return {rank, train ? stages_over(w.parallel.pipeline, w.training.schedule) : w.parallel.pipeline};
}

/// Of a rank: of DualPipe its own stage and the one in its place from the other end.
Elements local_of_rank(const Llm& llm, const Workload& w, const Stage& stage) {
  Elements e = local(llm, w, stage);
  if (!two_stages(w)) return e;
  const Elements other = local(llm, w, {stage.of - 1 - stage.number, stage.of});
  e.wide += other.wide;
  e.linear += other.linear;
  e.experts += other.experts;
  e.shared += other.shared;
  return e;
}

HeldParams held(const Workload& w, const Elements& e) {
  const ParallelPlan& p = w.parallel;
  const bool copies = two_stages(w) && w.training.schedule == PipelineSchedule::dual_pipe;
  const std::int64_t ends = copies ? 2 : 1;  // ranks of a pipeline that hold the same stage
  const std::int64_t group =
      p.expert == 1 ? p.tensor : std::max(p.expert, p.tensor);  // ranks that hold all experts once
  HeldParams held;
  held.dense = {e.all(), ends * p.data * p.context, p.tensor};
  if (p.tensor > 1 && e.shared > 0) {
    held.dense.params -= e.shared;
    held.shared = {e.shared, ends * p.stage_ranks(), 1};
  }
  if (group != p.tensor && e.experts > 0) {
    held.dense.params -= e.experts;
    held.experts = {e.experts, ends * p.stage_ranks() / group, group};
  }
  return held;
}

/// Of weights: one in fp32 for each block.
Bytes scales(const Types& t, const Precision& p, double elements) {
  const double block = d(t.block_of(p));
  return block > 0 ? storage(DType::fp32, elements / (block * block)) : Bytes{};
}

/// Training keeps the weights that layers read in the activation type, whatever the matrix products quantize to.
Bytes weights(const Elements& e, const Types& t, bool train) {
  if (train) return storage(t.base, e.wide + e.linear + e.experts);
  return storage(t.base, e.wide) + storage(t.linear.weight, e.linear) + storage(t.experts.weight, e.experts) +
         scales(t, t.linear, e.linear) + scales(t, t.experts, e.experts);
}

/// Of all sequences of the replica; of the rank's own in data-parallel attention.
Bytes cache(const Llm& llm, const Workload& w, const Types& t, const Stage& stage) {
  const ParallelPlan& p = w.parallel;
  const std::int64_t replica = lowering::replica_batch(w), tensor = p.attention_data ? 1 : p.tensor;
  const double sequences = d(p.attention_data ? lowering::ceil_div(replica, p.tensor) : replica);
  Bytes total;
  for (const StackSpec& stack : llm.stacks) {
    if (stack.role != StackSpec::Role::decoder) continue;
    const Lengths n = lowering::lengths_of(llm, w, stack);
    each_kind(llm, stack, stage, [&](const LayerSpec& l, double repeats) {
      Bytes one;
      if (l.mixer) one += l.mixer->cache({t.kv, t.base, d(n.kept), tensor});
      if (l.cross) one += l.cross->cache({t.kv, t.base, d(n.cross_len), tensor});
      if (l.feed) one += l.feed->cache({t.kv, t.base, d(n.kept), tensor});
      total += repeats * sequences * one;
    });
  }
  return total;
}

/// Rows and columns of the matrices that make up `e`.
double factors(const Llm& llm, const Workload& w, const Stage& stage, const Elements& e) {
  const double hidden = d(llm.hidden);
  double matrices = e.wide / hidden > 1 ? 1 : 0;  // the embedding, or the head
  const auto count = [&](const LayerSpec& l, double layers) {
    double own = (l.mixer ? 2 : 0) + (l.cross ? 2 : 0);
    if (l.ffn && l.ffn->is_moe()) {
      own += 2 * d(lowering::ceil_div(l.ffn->experts, lowering::expert_plan(w, *l.ffn).ranks));
    } else if (l.ffn || l.feed) {
      own += 2;
    }
    matrices += layers * own;
  };
  each_kind(llm, llm.main(), stage, count);
  if (two_stages(w)) each_kind(llm, llm.main(), {stage.of - 1 - stage.number, stage.of}, count);
  return e.all() / hidden + matrices * hidden;
}

/// Of each parameter an fp32 master weight (layers that read fp32 read that one), and: Adam's fp32 mean and variance (ZeRO,
/// arXiv 1910.02054, section 3.1), or of 8 bits with scales; a momentum of SGD, and of Muon's matrices; sums of rows and
/// columns of Adafactor. From ZeRO 1 on replicas share them.
Bytes optimizer(const Llm& llm, const Workload& w, const Stage& stage, const Elements& e, DType base) {
  const double params = e.all(), master = bits(base) < 32 ? 4 : 0;
  // of parts that are divided by unlike numbers of ranks the states go as parameters do
  const double shares = w.parallel.zero > 0 ? held(w, e).divided_by() : 1;
  double states = 8 * params;
  switch (w.training.optimizer) {
    case Optimizer::sgd: states = 4 * params; break;
    case Optimizer::sgd_plain: states = 0; break;
    case Optimizer::adam8bit: states = 2 * kMomentOf8Bits * params; break;
    case Optimizer::adafactor: states = 4 * factors(llm, w, stage, e); break;
    case Optimizer::muon: states = 4 * (e.linear + e.experts) + 8 * e.wide; break;
    default: break;
  }
  return (states + master * params) / shares * units::B;
}

/// The matrix library's, and partial results of decode kernels, of one layer at a time.
Bytes workspace(const Llm& llm, const Workload& w) {
  Bytes partial;
  if (w.phase == Phase::decode) {
    for (const LayerSpec& l : llm.main().kinds) {
      if (l.mixer)
        partial = std::max(partial, l.mixer->partials(d(w.batch), w.parallel.attention_data ? 1 : w.parallel.tensor));
    }
  }
  return lowering::kGemmWorkspace + partial;
}

/// Of weights whose products are in fp8 Transformer Engine keeps casts of both layouts beside them, made once an iteration
/// (get_weight_workspace() of its modules; is_first_microbatch, which Megatron-Core passes). Not where replicas share weights,
/// which are cast as they are gathered. Blackwell's products of one scale a tensor read both ways of one layout: half of this.
Bytes cast_weights(const Workload& w, const Types& t, const Elements& e) {
  if (w.parallel.zero == 3 && w.parallel.data * w.parallel.context > 1) return {};
  const Fp8Recipe recipe = w.training.fp8;
  const double scales = recipe == Fp8Recipe::block ? 4.0 / (128 * 128) : recipe == Fp8Recipe::mx ? 1.0 / 32 : 0;
  const double cast = (t.linear.math == DType::fp8 ? e.linear : 0) + (t.experts.math == DType::fp8 ? e.experts : 0);
  return 2 * (1 + scales) * cast * units::B;
}

/// Parameters of a rank that travel between replicas at a time: a layer's, or those outside of layers.
double largest_unit(const Llm& llm, const Workload& w, const Elements& e) {
  double most = e.wide;
  for (const LayerSpec& l : llm.main().kinds) {
    double own = l.params / d(w.parallel.tensor);
    if (w.parallel.expert > 1 && l.ffn && l.ffn->is_moe()) {
      const lowering::ExpertPlan plan = lowering::expert_plan(w, *l.ffn);
      own = (l.params - l.expert_params) / d(w.parallel.tensor) + l.expert_params / d(plan.ranks * plan.width_split);
    }
    most = std::max(most, own);
  }
  return std::min(most, e.all());
}

/// With states in the host's memory a rank holds activations while the passes run and states in the update: what it holds
/// where that is more.
MemoryNeed away(MemoryNeed need, const Workload& w) {
  if (w.training.offload != Offload::optimizer) return need;
  need.host = need.optimizer;
  (need.optimizer > need.activations ? need.activations : need.optimizer) = Bytes{};
  return need;
}

MemoryNeed need_of_stage(const Llm& llm, const Workload& w, const Types& t, const Stage& stage) {
  const Workload rank = lowering::rank_workload(w);
  const Elements e = local_of_rank(llm, w, stage);
  const bool train = w.phase == Phase::train;
  if (train && w.training.eager) {
    return lowering::eager_need(llm, rank, t, {e.all(), workspace(llm, rank), lowering::micro_batches(w) > 1});
  }
  MemoryNeed need;
  need.weights = weights(e, t, train);
  need.activations =
      train ? lowering::stored_activations(llm, rank, t, {stage.number, stage.of, lowering::micro_batches(w)})
            : lowering::live_activations(llm, rank, t);
  if (train && two_stages(w)) {
    const lowering::TrainingStage other{stage.of - 1 - stage.number, stage.of, lowering::micro_batches(w)};
    need.activations += lowering::stored_activations(llm, rank, t, other);
  }
  need.workspace = workspace(llm, rank);
  if (!train) need.kv_cache = cache(llm, w, t, stage);
  if (!train) return need;
  const double params = e.all(), replicas = held(w, e).divided_by();
  need.gradients = storage(w.training.gradient, params);
  need.weights += cast_weights(w, t, e);
  need.optimizer = optimizer(llm, w, stage, e, t.base);
  if (w.training.offload == Offload::activations) {
    const lowering::TrainingStage whole{stage.number, stage.of, lowering::micro_batches(w)};
    Workload at_home = rank;
    at_home.training.offload = Offload::none;
    need.host = lowering::stored_activations(llm, at_home, t, whole) - need.activations;
  }
  if (w.parallel.zero < 2 || w.parallel.data * w.parallel.context == 1) return away(need, w);
  // a share, and what is whole at a time: a layer's gradients; its weights and the next one's
  const double layer = largest_unit(llm, w, e);
  need.gradients = need.gradients / replicas + storage(w.training.gradient, layer);
  if (w.parallel.zero == 3) need.weights = need.weights / replicas + 2 * storage(t.base, layer);
  return away(need, w);
}

/// An inner stage of the layers that the one before it has, with no more micro-batches under way. (A rank of two stages has
/// one of them at the other end.)
bool needs_no_more(const Llm& llm, const Workload& w, std::int64_t rank) {
  const Stage stage = stage_of_rank(w, rank), before{stage.number - 1, stage.of};
  if (rank == 0 || before.first() || stage.last() || two_stages(w)) return false;
  const std::vector<int>& kinds = llm.main().order;
  const auto layers = static_cast<std::int64_t>(kinds.size());
  const lowering::StageLayers own = lowering::stage_layers(layers, stage.of, stage.number);
  const lowering::StageLayers others = lowering::stage_layers(layers, stage.of, before.number);
  if (!std::equal(kinds.begin() + own.first, kinds.begin() + own.last, kinds.begin() + others.first,
                  kinds.begin() + others.last)) {
    return false;
  }
  const std::int64_t parts = lowering::micro_batches(w);
  return w.phase != Phase::train || lowering::under_way(w, {stage.number, stage.of, parts}) <=
                                        lowering::under_way(w, {before.number, stage.of, parts});
}

}  // namespace

double local_params(const Llm& llm, const Workload& workload, std::int64_t stage) {
  return local_of_rank(llm, workload, stage_of_rank(workload, stage)).all();
}

HeldParams held_params(const Llm& llm, const Workload& workload, std::int64_t stage) {
  return held(workload, local_of_rank(llm, workload, stage_of_rank(workload, stage)));
}

double factor_elements(const Llm& llm, const Workload& workload, std::int64_t stage) {
  const Stage of = stage_of_rank(workload, stage);
  return factors(llm, workload, of, local_of_rank(llm, workload, of));
}

Bytes optimizer_states(const Llm& llm, const Workload& workload, std::int64_t stage) {
  const Stage of = stage_of_rank(workload, stage);
  return optimizer(llm, workload, of, local_of_rank(llm, workload, of), lowering::types_of(llm, workload).base);
}

Bytes kept_of_layer(const Llm& llm, const Workload& rank, const StackSpec& stack, std::size_t kind) {
  return lowering::kept_bytes_of(llm, rank, lowering::types_of(llm, rank), stack, kind) * units::B;
}

MemoryNeed memory_need(const Llm& llm, const Workload& w) {
  const Types t = lowering::types_of(llm, w);
  MemoryNeed most;
  for (std::int64_t i = 0; i < w.parallel.pipeline; ++i) {
    if (needs_no_more(llm, w, i)) continue;
    const MemoryNeed need = need_of_stage(llm, w, t, stage_of_rank(w, i));
    if (i == 0 || need.total() > most.total()) most = need;
  }
  return most;
}

std::vector<MemoryNeed> memory_of_stages(const Llm& llm, const Workload& w) {
  const Types t = lowering::types_of(llm, w);
  std::vector<MemoryNeed> stages;
  for (std::int64_t i = 0; i < w.parallel.pipeline; ++i) {
    stages.push_back(need_of_stage(llm, w, t, stage_of_rank(w, i)));
  }
  return stages;
}

}  // namespace plumbline
