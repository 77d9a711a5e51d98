// Weights, cache, optimizer and workspace; activations are in activations.cpp.
#include "ops/memory/memory.hpp"

#include <algorithm>

#include "ops/memory/parts.hpp"
#include "ops/step/libraries.hpp"

namespace plumbline {
namespace {

using lowering::Lengths;
using lowering::Types;

double d(std::int64_t n) { return static_cast<double>(n); }

/// Layers of each kind, as (layer, repeats) calls. Stacks that do not run are in memory too.
template <class Visit>
void each_kind(const StackSpec& stack, Visit visit) {
  for (std::size_t i = 0; i < stack.kinds.size(); ++i) {
    const auto repeats = std::count(stack.order.begin(), stack.order.end(), static_cast<int>(i));
    if (repeats > 0) visit(stack.kinds[i], static_cast<double>(repeats));
  }
}

/// Elements of the model by storage class. Norms over the hidden width and routers stay wide in every published
/// quantization (docs/sources.md: models); QK norms and biases are too few to matter.
struct Elements {
  double wide = 0, linear = 0, experts = 0;
};

Elements elements_of(const Llm& llm) {
  Elements e;
  e.wide = llm.embedding_params + llm.head_params;
  for (const StackSpec& stack : llm.stacks) {
    e.wide += stack.other_params;
    each_kind(stack, [&](const LayerSpec& l, double layers) {
      const double repeats = stack.shared_weights ? 1 : layers;
      double wide = d(l.norms) * d(l.norm_vectors) * d(stack.hidden);
      if (l.ffn) wide += d(l.ffn->experts) * d(stack.hidden);
      e.wide += repeats * wide;
      e.linear += repeats * (l.params - l.expert_params - wide);
      e.experts += repeats * l.expert_params;
    });
  }
  return e;
}

Elements local(const Llm& llm, const ParallelPlan& p) {
  Elements e = elements_of(llm);
  e.wide /= d(p.tensor);
  e.linear /= d(p.tensor);
  e.experts /= d(p.tensor * p.expert);
  return e;
}

/// Training keeps the weights that layers read in the activation type, whatever the matrix products quantize to.
Bytes weights(const Elements& e, const Types& t, bool train) {
  if (train) return storage(t.base, e.wide + e.linear + e.experts);
  return storage(t.base, e.wide) + storage(t.linear.weight, e.linear) + storage(t.experts.weight, e.experts);
}

Bytes cache(const Llm& llm, const Workload& w, const Types& t) {
  Bytes total;
  for (const StackSpec& stack : llm.stacks) {
    if (stack.role != StackSpec::Role::decoder) continue;
    const Lengths n = lowering::lengths_of(llm, w, stack);
    each_kind(stack, [&](const LayerSpec& l, double repeats) {
      Bytes one;
      if (l.mixer) one += l.mixer->cache({t.kv, t.base, d(n.kv_len), w.parallel.tensor});
      if (l.cross) one += l.cross->cache({t.kv, t.base, d(n.cross_len), w.parallel.tensor});
      total += repeats * d(w.batch) * one;
    });
  }
  return total;
}

/// Adam with mixed precision keeps 16 bytes a parameter: weight 2, gradient 2, fp32 master weight, mean and variance 4
/// each (ZeRO, arXiv 1910.02054, section 3.1). The weights are counted apart. fp32 training: 4 + 4 + 8, no master.
Bytes optimizer(double params, Bytes weight_bytes) { return 16.0 * params * units::B - weight_bytes; }

/// The matrix library's, and partial results of decode kernels, of one layer at a time.
Bytes workspace(const Llm& llm, const Workload& w) {
  Bytes partial;
  if (w.phase == Phase::decode) {
    for (const LayerSpec& l : llm.main().kinds) {
      if (l.mixer) partial = std::max(partial, l.mixer->partials(d(w.batch), w.parallel.tensor));
    }
  }
  return lowering::kGemmWorkspace + partial;
}

}  // namespace

double local_params(const Llm& llm, const Workload& workload) {
  const Elements e = local(llm, workload.parallel);
  return e.wide + e.linear + e.experts;
}

MemoryNeed memory_need(const Llm& llm, const Workload& w) {
  const Types t = lowering::types_of(llm, w);
  const Elements e = local(llm, w.parallel);
  const bool train = w.phase == Phase::train;
  MemoryNeed need;
  need.weights = weights(e, t, train);
  need.activations = train ? lowering::stored_activations(llm, w, t) : lowering::live_activations(llm, w, t);
  need.workspace = workspace(llm, w);
  if (train) need.optimizer = optimizer(e.wide + e.linear + e.experts, need.weights);
  else need.kv_cache = cache(llm, w, t);
  return need;
}

}  // namespace plumbline
