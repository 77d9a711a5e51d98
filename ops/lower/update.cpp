// What follows the last backward pass of an iteration: gradients of weights are added up over the replicas, their norm
// is taken, and the optimizer updates this rank's parameters.
//
// Per parameter, with g bytes of gradient (Workload::training.gradient) and a weight of w bytes that layers read:
//   adam, adamw   reads g, fp32 mean, variance and master weight; writes the three and the weight (Loshchilov and
//                 Hutter, arXiv 1711.05101; mixed precision as ZeRO, arXiv 1910.02054, section 3.1, has it)
//   sgd           reads g, fp32 momentum and master weight; writes both and the weight
// Gradients that are added up over micro-batches are zeros first: written once, of any optimizer.
//
// Clipping reads the gradients once for their norm; the factor is taken into the update (apex's multi-tensor kernels),
// so gradients are not written again.
//
// ZeRO (arXiv 1910.02054; Megatron's distributed optimizer): from 1 on each replica updates its share, gradients are
// reduce-scattered and weights all-gathered.
#include "ops/as_double.hpp"
#include "ops/lower/parts.hpp"
#include "ops/memory/memory.hpp"

namespace plumbline::lowering {
namespace {

std::int64_t elements(double count) { return static_cast<std::int64_t>(count); }

void reduce_gradients(Step& s, double params) {
  const ParallelPlan& plan = s.workload.parallel;
  const DType type = s.workload.training.gradient;
  const Bytes bytes = storage(type, params);
  if (plan.zero == 0) {
    s.collective("grad_all_reduce"_node, CollectiveKind::all_reduce, bytes, type, plan.data, plan.tensor);
  } else {
    s.collective("grad_reduce_scatter"_node, CollectiveKind::reduce_scatter, bytes, type, plan.data, plan.tensor);
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
  if (plan.data == 1) return;
  const DType type = s.workload.training.gradient;
  const Bytes bytes = storage(type, params);
  const Rowwise copy = pass_over(s, params, width);
  s.pass = Pass::backward;
  s.open("replicas", 1);
  s.graph.segments.back().once = true;
  const auto gather = [&](NodeTag name, NodeTag out) {
    s.collective(name, CollectiveKind::all_gather, bytes, type, plan.data, plan.tensor);
    s.add(out, copy);
  };
  if (plan.zero == 0) {
    s.add("to_buckets"_node, copy);
    s.collective("grad_all_reduce"_node, CollectiveKind::all_reduce, bytes, type, plan.data, plan.tensor);
    s.add("from_buckets"_node, copy);
  } else {
    gather("forward_all_gather"_node, "forward_copy_out"_node);
    if (plan.zero == 3) gather("backward_all_gather"_node, "backward_copy_out"_node);
    s.add("grad_copy_in"_node, copy);
    s.collective("grad_reduce_scatter"_node, CollectiveKind::reduce_scatter, bytes, type, plan.data, plan.tensor);
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

/// `params`: those that this rank updates, rounded up to whole rows of the hidden width.
void optimizer(Step& s, double params, std::int64_t width) {
  const Training& training = s.workload.training;
  const std::int64_t rows = ceil_div(elements(params), width);
  const DType weight = s.types.base;
  if (training.optimizer != Optimizer::sgd) {
    const Rowwise update{RowwiseKind::adamw, rows, width, false, training.gradient, weight};
    if (training.optimizer == Optimizer::adamw_fused) s.add("adamw_fused"_node, update);
    else s.add("adamw"_node, update);
    return;
  }
  const double n = d(rows) * d(width), copy = bits(weight) < 32 ? bits(weight) / 8 : 0;
  CustomOp sgd;
  sgd.read = n * (bits(training.gradient) / 8 + 8) * units::B;
  sgd.write = n * (8 + copy) * units::B;
  sgd.fp32 = 6 * n * units::FLOP;  // g + decay w; momentum m + g; w - rate m
  sgd.dtype = weight;
  s.add("sgd"_node, sgd);
}

}  // namespace

void update(Step& s, const Llm& llm, double params) {
  const ParallelPlan& plan = s.workload.parallel;
  const bool eager = s.workload.training.eager;
  if (eager) exchange_eagerly(s, params, llm.hidden);
  s.pass = Pass::update;
  s.open("optimizer", 1);
  s.graph.segments.back().once = true;
  if (!eager) {
    zero_gradients(s, params);
    reduce_gradients(s, params);
  }
  const double share = plan.zero == 0 ? params : params / d(plan.data);
  s.add("grad_norm"_node, Scan{ScanKind::sum_all, elements(share), s.workload.training.gradient});
  optimizer(s, share, llm.hidden);
  if (plan.zero > 0 && !eager) {
    s.collective("weight_all_gather"_node, CollectiveKind::all_gather, storage(s.types.base, params), s.types.base,
                 plan.data, plan.tensor);
  }
  s.close();
}

}  // namespace plumbline::lowering
