// What follows the last backward pass of an iteration: gradients of weights are added up over the replicas, their norm
// is taken, and the optimizer updates this rank's parameters.
//
// What each optimizer moves stands in optimizers.cpp.
// Gradients that are added up over micro-batches are zeros first: written once, of any optimizer.
//
// Clipping reads the gradients once for their norm; the factor is taken into the update (apex's multi-tensor kernels),
// so gradients are not written again.
//
// ZeRO (arXiv 1910.02054; Megatron's distributed optimizer): from 1 on each replica updates its share, gradients are
// reduce-scattered and weights all-gathered. From 2 on gradients are reduce-scattered behind each micro-batch.
#include <algorithm>
#include <numeric>

#include "ops/as_double.hpp"
#include "ops/lower/tensors.hpp"
#include "ops/memory/memory.hpp"
#include "ops/memory/parts.hpp"
#include "ops/resolve/ranks.hpp"

namespace plumbline::lowering {
namespace {

/// Under autocast to fp16 the loss is scaled, so that small gradients do not vanish, and gradients are multiplied by the inverse
/// in front of all else, which looks for infinite ones (torch.amp.GradScaler; torch/amp/grad_scaler.py of PyTorch 2.11).
void unscale(Step& s, const Llm& llm, double params) {
  const Training& t = s.workload.training;
  if (!t.autocast(s.types.base) || s.types.base != DType::fp16) return;
  const std::int64_t rows = ceil_div(static_cast<std::int64_t>(params), llm.hidden);
  s.add("unscale"_node, Rowwise{RowwiseKind::scale, rows, llm.hidden, false, t.gradient, t.gradient});
}

std::int64_t elements(double count) { return static_cast<std::int64_t>(count); }

/// What is exchanged of each of HeldParams goes by a name of its own.
struct ExchangeNames {
  NodeTag all_reduce, reduce_scatter, weights, forward, backward;
};
constexpr NodeRole kForward = NodeRole::beside_forward, kBackward = NodeRole::beside_backward;
constexpr ExchangeNames kDense{"grad_all_reduce"_node.as(kBackward), "grad_reduce_scatter"_node.as(kBackward),
                               "weight_all_gather"_node.as(kForward), "forward_all_gather"_node.as(kForward),
                               "backward_all_gather"_node.as(kBackward)};
constexpr ExchangeNames kShared{
    "shared_grad_all_reduce"_node.as(kBackward), "shared_grad_reduce_scatter"_node.as(kBackward),
    "shared_weight_all_gather"_node.as(kForward), "shared_forward_all_gather"_node.as(kForward),
    "shared_backward_all_gather"_node.as(kBackward)};
constexpr ExchangeNames kExperts{
    "expert_grad_all_reduce"_node.as(kBackward), "expert_grad_reduce_scatter"_node.as(kBackward),
    "expert_weight_all_gather"_node.as(kForward), "expert_forward_all_gather"_node.as(kForward),
    "expert_backward_all_gather"_node.as(kBackward)};

template <class Visit>
void each_part(const HeldParams& held, Visit visit) {
  if (held.dense.params > 0) visit(held.dense, kDense);
  if (held.shared.params > 0) visit(held.shared, kShared);
  if (held.experts.params > 0) visit(held.experts, kExperts);
}

void reduce_gradients(Step& s, const HeldParams& held) {
  const DType type = s.workload.training.gradient;
  const bool whole = s.workload.parallel.zero == 0;
  each_part(held, [&](const Copies& part, const ExchangeNames& names) {
    s.collective(whole ? names.all_reduce : names.reduce_scatter,
                 whole ? CollectiveKind::all_reduce : CollectiveKind::reduce_scatter, storage(type, part.params), type,
                 part.ranks, part.apart);
  });
}

void gather(Step& s, const HeldParams& held, NodeTag ExchangeNames::*name) {
  each_part(held, [&](const Copies& part, const ExchangeNames& names) {
    s.collective(names.*name, CollectiveKind::all_gather, storage(s.types.base, part.params), s.types.base, part.ranks,
                 part.apart);
  });
}

/// The array that products of all micro-batches add to begins each iteration as zeros (Megatron-LM's zero_grad_buffer):
/// written once.
void zero_gradients(Step& s, double params) {
  CustomOp zero;
  zero.write = storage(s.workload.training.gradient, params);
  zero.dtype = s.workload.training.gradient;
  s.add("zero_grad"_node, zero);
}

/// What replicas share is exchanged a unit at a time, as FSDP wraps a model: each layer, and what is outside of them.
struct Units {
  std::int64_t layers = 1;
  HeldParams layer, outside;  ///< parameters of this rank
};

/// In a pipeline: the layers of a stage; the first one has the embedding, the last one the head (or a copy of the embedding).
Units units_of(const Step& s, const Llm& llm, const HeldParams& held, std::int64_t stage) {
  const std::int64_t stages = s.workload.parallel.pipeline;
  double matrices = llm.tied_embeddings ? 1 : 2;
  if (stages > 1) matrices = stage == 0 || stage + 1 == stages ? 1 : 0;
  const double ends = matrices * d(llm.vocab) * d(llm.hidden) / d(s.tp());
  const auto layers = layers_of_stage(llm, llm.main(), stages, stage);
  Units units{std::max<std::int64_t>(1, std::accumulate(layers.begin(), layers.end(), std::int64_t{0})), held, held};
  units.outside.shared.params = units.outside.experts.params = 0;
  units.outside.dense.params = ends < held.dense.params ? ends : 0;
  units.layer.dense.params = (held.dense.params - units.outside.dense.params) / d(units.layers);
  units.layer.shared.params /= d(units.layers);
  units.layer.experts.params /= d(units.layers);
  return units;
}

/// Where replicas share gradients (2) and weights (3), behind each micro-batch: gradients are reduce-scattered as they are
/// made, and each layer's weights all-gathered in front of its forward and of its backward pass (ZeRO, sections 5.2, 5.3). So
/// does Megatron-FSDP in a pipeline too, whose replicas hold no gradients but their shares between micro-batches
/// (grad_reduce_every_bprop of its megatron_fsdp.py). A stage waits for its own gathers and sums before it hands on.
void exchange_unit(Step& s, const char* segment, std::int64_t units, const HeldParams& held) {
  if (!(held.total() > 0)) return;
  const bool gathers = s.workload.parallel.zero == 3, apart = s.workload.parallel.pipeline > 1;
  if (gathers && apart) {
    s.pass = Pass::forward;
    s.open(segment, units);
    gather(s, held, &ExchangeNames::forward);
    s.close();
  }
  s.pass = Pass::backward;
  s.open(segment, units);
  if (gathers) {
    if (!apart) gather(s, held, &ExchangeNames::forward);
    gather(s, held, &ExchangeNames::backward);
  }
  const std::size_t sums = s.graph.nodes.size();
  reduce_gradients(s, held);
  for (std::size_t i = sums; i < s.graph.nodes.size(); ++i) s.graph.nodes[i].of_weights = apart;
  s.close();
}

void exchange_each_time(Step& s, const Llm& llm, const HeldParams& held, std::int64_t stage) {
  const ParallelPlan& plan = s.workload.parallel;
  if (copies(plan) == 1 || plan.zero < 2) return;
  const Units units = units_of(s, llm, held, stage);
  exchange_unit(s, "replicas", units.layers, units.layer);
  exchange_unit(s, "replicas_ends", 1, units.outside);
}

/// ZeRO 2 gathers what was updated a unit at a time, as each pass forward needs it.
void gather_units(Step& s, const Llm& llm, const HeldParams& held, std::int64_t stage) {
  if (s.workload.parallel.data == 1) return;
  const Units units = units_of(s, llm, held, stage);
  const auto unit = [&](const char* segment, std::int64_t count, const HeldParams& of_unit) {
    if (!(of_unit.total() > 0)) return;
    s.open(segment, count);
    s.graph.segments.back().once = true;
    gather(s, of_unit, &ExchangeNames::weights);
    s.close();
  };
  unit("weights", units.layers, units.layer);
  unit("weights_ends", 1, units.outside);
}

}  // namespace

void update(Step& s, const Llm& llm, std::int64_t stage) {
  const HeldParams held = held_params(llm, s.workload, stage);
  const double params = held.total();
  const ParallelPlan& plan = s.workload.parallel;
  const bool eager = s.workload.training.eager;
  if (eager) exchange_eagerly(s, llm, params);
  else exchange_each_time(s, llm, held, stage);
  s.pass = Pass::update;
  s.open("optimizer", 1);
  s.graph.segments.back().once = true;
  const bool dealt = eager && plan.zero == 1 && copies(plan) > 1;
  const double share = plan.zero == 0 ? params : dealt ? dealt_share(llm, s.workload, params) : held.share();
  const double summed = dealt ? params : share;  // of whose gradients this rank has sums
  if (!eager) {
    zero_gradients(s, plan.zero < 2 ? params : share);
    if (plan.zero < 2) reduce_gradients(s, held);
  }
  unscale(s, llm, summed);
  if (s.workload.training.clips()) {
    s.add("grad_norm"_node, Scan{ScanKind::norm_all, elements(summed), s.workload.training.gradient});
  }
  const bool away = s.workload.training.offload == Offload::optimizer;
  const Bytes states = away ? optimizer_states(llm, s.workload, stage) : Bytes{};
  if (away) s.copy_from_host("states_from_host"_node, states);
  Updated updated{stage, share};
  if (plan.zero > 0) {
    updated.replicas = held.dense.ranks;
    updated.expert_replicas = held.experts.params > 0 ? held.experts.ranks : held.dense.ranks;
    updated.divided_by = held.divided_by();
  }
  optimizer(s, llm, updated);
  if (dealt) broadcast_tensors(s, llm, params);
  if (away) s.copy_to_host("states_to_host"_node, states);
  if (plan.zero == 1 && !eager) gather(s, held, &ExchangeNames::weights);
  s.close();
  if (plan.zero == 2 && !eager) gather_units(s, llm, held, stage);
}

}  // namespace plumbline::lowering
