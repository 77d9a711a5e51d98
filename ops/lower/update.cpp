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
#include "ops/as_double.hpp"
#include "ops/lower/parts.hpp"
#include "ops/memory/memory.hpp"

namespace plumbline::lowering {
namespace {

constexpr NodeTag kForwardGather = "forward_all_gather"_node.as(NodeRole::beside_forward);
constexpr NodeTag kBackwardGather = "backward_all_gather"_node.as(NodeRole::beside_backward);

/// Ranks that hold the same parameters: replicas, and those that share a sequence.
std::int64_t copies(const ParallelPlan& plan) { return plan.data * plan.context; }

std::int64_t elements(double count) { return static_cast<std::int64_t>(count); }

void reduce_gradients(Step& s, double params) {
  const ParallelPlan& plan = s.workload.parallel;
  const DType type = s.workload.training.gradient;
  const Bytes bytes = storage(type, params);
  if (plan.zero == 0) {
    s.collective("grad_all_reduce"_node.as(NodeRole::beside_backward), CollectiveKind::all_reduce, bytes, type,
                 copies(plan), plan.tensor);
  } else {
    s.collective("grad_reduce_scatter"_node.as(NodeRole::beside_backward), CollectiveKind::reduce_scatter, bytes, type,
                 copies(plan), plan.tensor);
  }
}

Rowwise pass_over(const Step& s, double params, std::int64_t width) {
  const DType type = s.workload.training.gradient;
  return {RowwiseKind::copy, ceil_div(elements(params), width), width, false, type, type};
}

/// What replicas of an eager framework exchange while the backward pass runs. DistributedDataParallel (zero 0) copies each
/// gradient into a bucket, sums buckets, and copies them back. FSDP gathers a layer's parameters in front of its forward
/// pass and, where they are dropped behind it (zero 3, reshard_after_forward; with zero 2 they stay), its backward pass,
/// copying them out of what was gathered; gradients are copied together and scattered as sums.
void exchange_eagerly(Step& s, double params, std::int64_t width) {
  const ParallelPlan& plan = s.workload.parallel;
  if (copies(plan) == 1) return;
  const DType type = s.workload.training.gradient;
  const Bytes bytes = storage(type, params);
  const Rowwise copy = pass_over(s, params, width);
  s.pass = Pass::backward;
  s.open("replicas", 1);
  s.graph.segments.back().once = true;
  const auto gather = [&](NodeTag name, NodeTag out) {
    s.collective(name, CollectiveKind::all_gather, bytes, type, copies(plan), plan.tensor);
    s.add(out, copy);
  };
  if (plan.zero == 0) {
    s.add("to_buckets"_node, copy);
    s.collective("grad_all_reduce"_node, CollectiveKind::all_reduce, bytes, type, copies(plan), plan.tensor);
    s.add("from_buckets"_node, copy);
  } else {
    gather("forward_all_gather"_node, "forward_copy_out"_node);
    if (plan.zero == 3) gather("backward_all_gather"_node, "backward_copy_out"_node);
    s.add("grad_copy_in"_node, copy);
    s.collective("grad_reduce_scatter"_node, CollectiveKind::reduce_scatter, bytes, type, copies(plan), plan.tensor);
  }
  s.close();
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
  double layer = 0, outside = 0;  ///< parameters of this rank
};

Units units_of(const Step& s, const Llm& llm, double params) {
  const double matrices = llm.tied_embeddings ? 1 : 2;
  const double ends = matrices * d(llm.vocab) * d(llm.hidden) / d(s.tp());
  Units units{static_cast<std::int64_t>(llm.main().order.size()), 0, ends < params ? ends : 0};
  units.layer = (params - units.outside) / d(units.layers);
  return units;
}

/// Where replicas share gradients (2) and weights (3), behind each micro-batch: gradients are reduce-scattered as they are
/// made, and each layer's weights all-gathered in front of its forward and of its backward pass (ZeRO, sections 5.2, 5.3).
void exchange_unit(Step& s, const char* segment, std::int64_t units, double params) {
  const ParallelPlan& plan = s.workload.parallel;
  if (!(params > 0)) return;
  s.pass = Pass::backward;
  s.open(segment, units);
  const Bytes weights = storage(s.types.base, params);
  if (plan.zero == 3) {
    s.collective(kForwardGather, CollectiveKind::all_gather, weights, s.types.base, copies(plan), plan.tensor);
    s.collective(kBackwardGather, CollectiveKind::all_gather, weights, s.types.base, copies(plan), plan.tensor);
  }
  reduce_gradients(s, params);
  s.close();
}

void exchange_each_time(Step& s, const Llm& llm, double params) {
  const ParallelPlan& plan = s.workload.parallel;
  if (copies(plan) == 1 || plan.zero < 2) return;
  const Units units = units_of(s, llm, params);
  exchange_unit(s, "replicas", units.layers, units.layer);
  exchange_unit(s, "replicas_ends", 1, units.outside);
}

void gather_weights(Step& s, double params) {
  const ParallelPlan& plan = s.workload.parallel;
  s.collective("weight_all_gather"_node.as(NodeRole::beside_forward), CollectiveKind::all_gather,
               storage(s.types.base, params), s.types.base, copies(plan), plan.tensor);
}

/// ZeRO 2 gathers what was updated a unit at a time, as each pass forward needs it.
void gather_units(Step& s, const Llm& llm, double params) {
  if (s.workload.parallel.data == 1) return;
  const Units units = units_of(s, llm, params);
  const auto unit = [&](const char* segment, std::int64_t count, double of_unit) {
    if (!(of_unit > 0)) return;
    s.open(segment, count);
    s.graph.segments.back().once = true;
    gather_weights(s, of_unit);
    s.close();
  };
  unit("weights", units.layers, units.layer);
  unit("weights_ends", 1, units.outside);
}

}  // namespace

void update(Step& s, const Llm& llm, std::int64_t stage) {
  const double params = local_params(llm, s.workload, stage);
  const ParallelPlan& plan = s.workload.parallel;
  const bool eager = s.workload.training.eager;
  if (eager) exchange_eagerly(s, params, llm.hidden);
  else exchange_each_time(s, llm, params);
  s.pass = Pass::update;
  s.open("optimizer", 1);
  s.graph.segments.back().once = true;
  const double share = plan.zero == 0 ? params : params / d(copies(plan));
  if (!eager) {
    zero_gradients(s, plan.zero < 2 ? params : share);
    if (plan.zero < 2) reduce_gradients(s, params);
  }
  s.add("grad_norm"_node, Scan{ScanKind::norm_all, elements(share), s.workload.training.gradient});
  optimizer(s, llm, {stage, share, plan.zero == 0 ? 1 : copies(plan)});
  if (plan.zero == 1 && !eager) gather_weights(s, params);
  s.close();
  if (plan.zero == 2 && !eager) gather_units(s, llm, params);
}

}  // namespace plumbline::lowering
