// Memory of an iteration as an eager framework runs it (PyTorch's autograd and torch.optim): a sum of bytes that has no
// constant of its own. What is alive depends on the place in the iteration, and the one that holds most counts:
//
//   loss        parameters and states, what autograd keeps of all layers, and of each logit its log-softmax, the gradient of
//               that and the gradient of the logit that is made of the two: 12 bytes where the loss casts to fp32 first
//               (there are no gradients of parameters yet)
//   head        the same without those, the logits' gradient in their own type, and the first gradient: the head's matrix
//   layers      inputs of all layers and, with recomputation, all of the layer that is computed again; inside of it what its
//               backward pass makes for a moment; at its end the first layer's alone, and the others' gradients
//   embedding   parameters, states, all gradients, and of a tied embedding its second gradient, which
//               embedding_dense_backward writes all of, and the sum of the two; under autocast that one is added to the first
//               in its place, which is a cast of its own there and else a view of what the product made
//               (can_accumulate_inplace() of torch/csrc/autograd/input_buffer.cpp asks for the last reference)
//   optimizer   parameters, states, all gradients, and for a pass a tensor list (foreach) the square roots of the second
//               moments, of all parameters at once; torch.optim's fused kernel has none
//
// Replicas: DistributedDataParallel (zero 0) has its buckets beside, as large as all gradients. FSDP (2 and 3) has a share of
// parameters, gradients and states, and beside them what is gathered: of the embedding and head, which are one unit, from
// their forward to their backward pass; of the layers too where they stay (2), else of one, the last at the loss. Under a
// MixedPrecisionPolicy what is gathered and the gradients of products have the layers' type, shares the wider one.
//
// FSDP of the first kind has no buffers beside: while the host is in a layer forward, its unit and the root's are there, and
// backward the next one's. A unit's gradients are there twice for a moment, by themselves and joined. ZeroRedundancyOptimizer
// (1) is as DistributedDataParallel, with states of the tensors that a rank updates.
//
// Each was read off torch/csrc/autograd and torch/optim/adam.py of PyTorch 2.11.
#include <algorithm>
#include <vector>

#include "ops/as_double.hpp"
#include "ops/memory/parts.hpp"
#include "ops/memory/source_keeps.hpp"

namespace plumbline::lowering {
namespace {

/// Of the parameters' type: two moments, a momentum, or nothing. Muon has a momentum of the layers' matrices (their
/// share here is that of all but embedding, head and experts); Adafactor sums of rows and columns, a thousandth;
/// moments of 8 bits are as wide whatever the parameters are (tensors of fewer than 4096 elements have them in fp32,
/// which is left out here: a norm's 2048 beside matrices of millions).
double states_of(const Training& t, double in_matrices) {
  if (t.optimizer == Optimizer::muon) return 2 - in_matrices;
  if (t.optimizer == Optimizer::adafactor) return 1e-3;
  if (t.optimizer == Optimizer::adam8bit) return 2 * kMomentOf8Bits / (bits(t.gradient) / 8);
  return t.optimizer == Optimizer::sgd_plain ? 0 : t.optimizer == Optimizer::sgd ? 1 : 2;
}

/// Elements of an embedding, or of a layer's experts' first matrices, which lie in one tensor.
double largest_tensor(const Llm& llm) {
  double most = d(llm.vocab) * d(llm.hidden);
  for (const LayerSpec& l : llm.main().kinds) {
    if (!l.ffn || !l.ffn->is_moe()) continue;
    most = std::max(most, d(l.ffn->experts) * (l.ffn->gated ? 2 : 1) * d(l.ffn->expert_width) * d(llm.hidden));
  }
  return most;
}

/// Of all layers.
double expert_params(const Llm& llm) {
  double sum = 0;
  for (const int kind : llm.main().order) sum += llm.main().kinds[static_cast<std::size_t>(kind)].expert_params;
  return sum;
}

/// transformers' causal losses cast logits to fp32, and so does ModernBERT's; other encoders', of masked tokens, T5's and
/// BART's read them as they are.
bool casts_logits(const Llm& llm) {
  const SourceKeeps source = source_keeps(llm);
  if (source.biases_scores || source.ends_of_encoder) return false;
  return llm.main().role != StackSpec::Role::encoder || llm.model_type == "modernbert";
}

/// Bytes a logit where the loss is differentiated: its logarithm and two gradients; where it is not cast before,
/// autocast casts the logarithms, and their gradient; or, as BART adds an fp32 bias to its logits, none of the three.
double loss_bytes(const Llm& llm, const Workload& w, DType base) {
  const double element = bits(base) / 8, fp32 = 4;
  if (casts_logits(llm) || (w.training.autocast(base) && source_keeps(llm).biases_logits)) return 3 * fp32;
  return w.training.autocast(base) ? element + 2 * fp32 : 3 * element;
}

/// Of the residual stream in fp32, as the head reads it.
Bytes last_rows(const Llm& llm, const Workload& w) { return 4 * d(w.batch) * d(w.prompt) * d(llm.hidden) * units::B; }

/// What a checkpoint keeps of a layer beside what the layer does, whose first norm reads its rows as fp32.
Bytes layer_input(const Llm& llm, const Workload& w, const Types& types) {
  return w.training.autocast(types.base) ? Bytes{} : storage(types.base, d(w.batch) * d(w.prompt) * d(llm.hidden));
}

/// Each thread that multiplies has a handle and with it a workspace: the one that runs forward, autograd's that runs
/// backward.
constexpr double kHandles = 2;

/// What stands all the time of a rank that keeps `shard` of the parameters and updates `updated` of them.
MemoryNeed standing_need(const Workload& w, const EagerRank& of, double in_matrices, Bytes shard, Bytes updated) {
  const Bytes all = storage(w.training.gradient, of.params);
  MemoryNeed need;
  need.weights = shard;
  need.optimizer = states_of(w.training, in_matrices) * updated;
  need.workspace = kHandles * of.workspace;
  if (w.parallel.zero < 2 && w.parallel.data > 1) need.workspace += all;  // buckets
  return need;
}

/// The moment of an iteration at which most is needed, of those that it was told of.
struct Peak {
  MemoryNeed base, most{};

  void at(Bytes activations, Bytes gradients, Bytes beside = Bytes{}) {
    MemoryNeed need = base;
    need.activations = activations;
    need.gradients = gradients;
    need.optimizer += beside;
    if (need.total() > most.total()) most = need;
  }
};

/// During the update: its lists, Adafactor's estimate of the largest tensor, of a loop the roots of its moments, the square roots
/// of what Muon leaves to lists.
void see_update(Peak& peak, const Llm& llm, const Workload& w, Bytes shard, Bytes updated, double in_matrices) {
  const Optimizer optimizer = w.training.optimizer;
  const bool list = optimizer == Optimizer::adam || optimizer == Optimizer::adamw;
  peak.at(Bytes{}, shard, list ? updated : Bytes{});
  if (optimizer == Optimizer::adafactor) {
    peak.at(Bytes{}, shard, storage(w.training.gradient, largest_tensor(llm) / d(w.parallel.tensor)));
  }
  if (optimizer == Optimizer::adamw_loop) {  // a root, and what it is divided to
    peak.at(Bytes{}, shard, storage(w.training.gradient, 2 * largest_tensor(llm) / d(w.parallel.tensor)));
  }
  if (optimizer == Optimizer::muon) peak.at(Bytes{}, shard, (1 - in_matrices) * shard);
}

/// Of a root unit that is one tensor, of all that no layer has: gathered, its gradients and what they are joined to.
Bytes flat_root(const Llm& llm, const Workload& w, const EagerRank& of, DType gathers) {
  double in_layers = 0;
  for (const int kind : llm.main().order) in_layers += llm.main().kinds[static_cast<std::size_t>(kind)].params;
  const double root = of.params - in_layers / d(w.parallel.tensor);
  return storage(gathers, 2 * root) + storage(w.training.gradient, root);
}

/// Parameters of the layer that has most, with its experts (1) or without them (0).
double largest_layer(const Llm& llm, double experts) {
  double most = 0;
  for (const LayerSpec& l : llm.main().kinds) most = std::max(most, l.params - (1 - experts) * l.expert_params);
  return most;
}

/// What `fully_shard` holds in a layer's backward pass, beside what layers keep.
struct Sharded {
  Bytes kept, of_layer;  ///< by all layers at its beginning, and by one that is computed again
  Bytes gathered, one_layer, head_gradient;
  double layer = 0;  ///< elements
};

/// In the backward pass of a layer behind which others are done: the gradients that they were joined from are there until
/// this one's are (reduce_scatter_state in post_backward() of _fsdp_param_group.py), and their shares of the sums stay.
void see_sharded_layers(Peak& peak, const Llm& llm, const Workload& w, const Types& types, const Sharded& of) {
  const auto layers = static_cast<std::int64_t>(llm.main().order.size());
  const DType made = w.training.made_gradient(types.base);
  const bool again = w.training.recompute == Recompute::full;
  const Bytes given_back = again ? layer_input(llm, w, types) : most_of_a_layer(llm, w, types) * units::B;
  const Bytes joined = storage(w.training.gradient, of.layer);
  const bool stay = w.parallel.zero == 2;
  for (const Beside& beside : beside_layers(llm, w, types)) {
    const Bytes own = storage(made, beside.params);
    for (const std::int64_t done : {std::int64_t{0}, std::int64_t{1}, layers - 2, layers - 1}) {
      if (done < 0 || done >= layers) continue;
      // layers that stayed gathered are given back behind their own backward pass; others are gathered one ahead
      const Bytes beyond = stay ? -d(done) * of.one_layer : done + 1 < layers ? of.one_layer : Bytes{};
      const Bytes activations = of.kept - d(done) * given_back + (again ? of.of_layer : Bytes{}) +
                                beside.bytes * units::B + of.gathered + beyond;
      const Bytes sums = done == 0 ? Bytes{} : joined + d(done) / d(w.parallel.data) * joined;
      peak.at(activations, of.head_gradient + own + sums);
    }
  }
}

/// What a rank that shares nothing holds there. `gradients`: of all parameters; `before`: of micro-batches before;
/// `looked_up`: elements of an embedding of its own.
struct Whole {
  Bytes kept;
  Bytes one_cast, gradients, before, head_gradient;
  double looked_up = 0;
};

/// In a layer: of the last one, whose backward pass comes first, and of the first one of each kind, when all behind it have
/// gradients in place of what they kept. Layers in front still have what they keep: all of it, or their inputs.
void see_whole_layers(Peak& peak, const Llm& llm, const Workload& w, const Types& types, const Whole& of) {
  const bool again = w.training.recompute == Recompute::full, casts = w.training.autocast(types.base);
  const Bytes input = again ? layer_input(llm, w, types) : Bytes{};
  const auto kept_by = [&](const Beside::Others& layers) {
    if (again) return layers.layers * input;
    return layers.kept * units::B + (casts ? storage(types.base, layers.cast) : Bytes{});
  };
  for (const Beside& beside : beside_layers(llm, w, types)) {
    // layers of one kind may keep more than those of the other
    const Bytes made_again = beside.kept * units::B + (casts ? of.one_cast : Bytes{});
    const Bytes more = (again ? made_again : Bytes{}) + beside.bytes * units::B;
    const Bytes own = storage(w.training.gradient, beside.params);
    if (beside.last) peak.at(of.kept + more, of.before + of.head_gradient + own);
    const double earlier = of.looked_up + beside.before.params + beside.whole;
    const Bytes later = of.gradients - storage(w.training.gradient, earlier);
    const Bytes alone = (beside.kept + beside.bytes) * units::B + (casts ? of.one_cast : Bytes{});
    peak.at(kept_by(beside.before) + input + alone, std::max(of.before, later + own));
  }
}

/// Of whose parameters a rank makes the update, which keeps `shard` of them.
Bytes updated_of(const Llm& llm, const Workload& w, const EagerRank& of, Bytes shard) {
  const bool dealt = w.parallel.zero == 1 && w.parallel.data > 1;
  return dealt ? storage(w.training.gradient, dealt_share(llm, w, of.params)) : shard;
}

}  // namespace

double dealt_share(const Llm& llm, const Workload& w, double params) {
  return std::max(params / d(w.parallel.data), largest_tensor(llm) / d(w.parallel.tensor));
}

MemoryNeed eager_need(const Llm& llm, const Workload& w, const Types& types, const EagerRank& of) {
  const Bytes all = storage(w.training.gradient, of.params);
  const double logits = logits_of(llm, w, types), element = bits(types.base) / 8;
  const double head = llm.has_head ? d(llm.vocab) * d(llm.hidden) / d(w.parallel.tensor) : 0;
  const DType gathers = w.training.made_gradient(types.base);
  const Bytes head_matrix = storage(gathers, head);
  const bool again = w.training.recompute == Recompute::full;
  const double replicas = d(w.parallel.data), shards = w.parallel.zero < 2 ? 1 : replicas;
  const Bytes ends = (llm.tied_embeddings ? 1.0 : 2.0) * head_matrix, shard = all / shards;
  const double in_matrices = 1 - ends / all - expert_params(llm) / of.params;
  const bool flat = w.training.flat_shards && shards > 1;
  const Bytes updated = updated_of(llm, w, of, shard);
  Peak peak{standing_need(w, of, in_matrices, shard, updated)};
  const auto at = [&](Bytes activations, Bytes gradients) { peak.at(activations, gradients); };
  Bytes kept = stored_activations(llm, w, types, {0, 1, 1});
  // autocast keeps its casts of what products read for the backward pass; an input embedding of its own is looked up as it is,
  // and experts' products read their matrices as they are
  const bool casts = w.training.autocast(types.base);
  const double looked_up = llm.tied_embeddings ? 0 : llm.embedding_params;
  const Bytes all_casts = casts ? storage(types.base, of.params - looked_up - expert_params(llm)) : Bytes{};
  const Bytes head_cast = casts ? storage(types.base, head) : Bytes{};
  kept += again ? head_cast : all_casts;
  // of further micro-batches: gradients of those before, whole, as shares are summed behind the last (flat ones as gathered)
  const Bytes before = !of.accumulates ? Bytes{} : flat ? storage(gathers, of.params) : all;
  if (llm.model_type == "gemma2") kept += element * logits * units::B;  // what the tangent of its logits' cap made
  const double layer = largest_layer(llm, 1), cast_layer = largest_layer(llm, 0);
  const Bytes one_layer = storage(gathers, layer / d(w.parallel.tensor));
  const Bytes gathered = shards == 1 ? Bytes{} : w.parallel.zero == 2 ? storage(gathers, of.params) : ends + one_layer;
  at(kept + loss_bytes(llm, w, types.base) * logits * units::B + gathered, before);
  // While a layer runs, FSDP gathers the next one into a buffer of its own (implicit prefetching in
  // torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py). The last one's is given back with the next wait for a gather:
  // where layers stay gathered, behind the loss's forward pass, which does without the logits' gradient in their own type.
  const Bytes prefetched = shards == 1 ? Bytes{} : one_layer;
  const Bytes forward_loss = (loss_bytes(llm, w, types.base) - element) * logits * units::B;
  // Casts of layers that are computed again stay until the forward pass is over, whose last rows are there as well.
  if (again && casts) at(kept - head_cast + all_casts + forward_loss + last_rows(llm, w), before);
  if (w.parallel.zero == 2 && !flat) at(kept + forward_loss + gathered + prefetched, before);
  at(kept + element * logits * units::B + gathered, before + head_matrix);
  Bytes of_layer = most_of_a_layer(llm, w, types) * units::B;
  const Bytes one_cast = storage(types.base, cast_layer / d(w.parallel.tensor));
  if (casts) of_layer += one_cast;
  if (again) at(kept + of_layer + gathered + prefetched, before + head_matrix);
  const Bytes in_layers = kept - stored_behind_layers(llm, w, types);
  if (shards > 1 && !flat) {
    see_sharded_layers(peak, llm, w, types,
                       {in_layers, of_layer, gathered, one_layer, before + head_matrix, layer / d(w.parallel.tensor)});
  }
  if (shards == 1) {
    see_whole_layers(peak, llm, w, types, {in_layers, one_cast, all, before, head_matrix, looked_up});
  }
  // the unit of embedding and head, and its gradients as they are summed
  const Bytes whole =
      shards == 1 ? Bytes{} : ends + storage(w.training.gradient, (llm.tied_embeddings ? 1.0 : 2.0) * head);
  at(whole, shard + (llm.tied_embeddings ? (casts ? 1.0 : 2.0) * head_matrix : Bytes{}));
  if (flat) at(flat_root(llm, w, of, gathers), shard);
  see_update(peak, llm, w, shard, updated, in_matrices);
  return peak.most;
}

}  // namespace plumbline::lowering
