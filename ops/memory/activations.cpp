// Activation memory of a step.
//
// Training, per layer, after Korthikanti et al., "Reducing activation recomputation" (arXiv 2205.05198) section 4.1:
// every input of an operator that its gradient needs is kept, each tensor once, dropout masks at one byte. For their
// GPT layer (heads x width = h, FFN 4h, dropout) the parts below add up to their
//     s b h (34 + 5 a s / h)
// without fusion (stored_layer.cpp); flash attention keeps one fp32 log-sum a query head instead of the 5 a s^2 b of scores.
#include <algorithm>

#include "ops/memory/view.hpp"

namespace plumbline::lowering {
namespace {

/// Widest set of tensors alive inside one layer beside the residual stream, elements in all: a part's input, what its
/// first projection made, and what the next kernel writes.
double live_layer(const LayerSpec& l, const View& v) {
  double most = 0;
  if (l.mixer) most = std::max(most, l.mixer->live(v.load()));
  else if (l.cross) most = std::max(most, l.cross->live(v.load()));
  if (l.feed) most = std::max(most, l.feed->live(v.load()));
  if (l.ffn) {
    const FfnSpec& f = *l.ffn;
    const double copies = v.flash() ? (f.gated ? 3 : 2) : (f.gated ? 4 : 2);
    double elements = v.tokens * (v.hidden + copies * d(std::max(f.width, f.shared_width)) / v.tp());
    if (f.is_moe()) {
      const double in = f.latent > 0 ? d(f.latent) : v.hidden;
      const double routed = routed_rows(f, v) * (2 * in + copies * d(f.expert_width) / expert_split(f, v));
      elements = std::max(elements, v.tokens * 2 * v.hidden + routed);
    }
    most = std::max(most, elements);
  }
  return most;
}

double logits(const Llm& llm, const Workload& w, const View& v) {
  if (!llm.has_head) return 0;
  const bool last_only = w.phase != Phase::train && llm.main().role == StackSpec::Role::decoder;
  return (last_only ? d(w.batch) : v.tokens) * d(llm.vocab) / v.tp();
}

}  // namespace

Bytes live_activations(const Llm& llm, const Workload& w, const Types& types) {
  double most = 0;
  for (const StackSpec& stack : llm.stacks) {
    if (!runs(llm, w, stack)) continue;
    const View v = view_of(llm, w, types, stack);
    const double residual = (scattered(llm, w) ? v.tokens / v.tp() : v.tokens) * v.hidden;
    for (const LayerSpec& l : stack.kinds) most = std::max(most, (residual + live_layer(l, v)) * v.element);
    if (&stack == &llm.main()) most = std::max(most, (2 * residual + logits(llm, w, v)) * v.element);
  }
  return most * units::B;
}

/// In layers of all its chunks: all of them; as many as there are stages from it on; with chunks the forward passes that it
/// makes ahead (model/schedule/training.cpp has the orders).
double under_way(const Workload& w, const TrainingStage& stage) {
  const double all = d(stage.micro_batches), behind = d(stage.of - stage.number - 1), chunks = d(w.training.chunks);
  const double ahead =
      experts_beside(w.overlap) ? 1 : 0;  // a forward pass more, whose exchanges the backward pass hides
  switch (w.training.schedule) {
    case PipelineSchedule::gpipe: return all;
    case PipelineSchedule::interleaved:
      return std::min(all, (2 * behind + (chunks - 1) * d(stage.of) + 1 + ahead) / chunks);
    case PipelineSchedule::dual_pipe:
    case PipelineSchedule::dual_pipe_v: return std::min(all, (d(stage.of) + 1) / 2);  // of each of two stages
    case PipelineSchedule::zero_bubble: return std::min(all, d(stage.of));
    default: return std::min(all, behind + 1 + ahead);
  }
}

namespace {

/// In eager code, what a model with dropout keeps before and behind its layers: the embedding's mask; an encoder with
/// such norms, with dropout or without, also the embedding's norm, and of the head's dense layer what its activation
/// and its norm read. Both are as wide as the embedding, which may be narrower than the layers (ALBERT).
double stored_ends(const Llm& llm, const StackSpec& stack, View v) {
  const LayerSpec& layer = stack.kinds.front();
  if (llm.vocab > 0 && llm.embedding_params > 0) v.hidden = std::min(v.hidden, llm.embedding_params / d(llm.vocab));
  const double elements = v.tokens * v.hidden;
  double mask = trains_with_dropout(layer, stack.role) && !v.source.keeps_embedding ? elements : 0;
  if (layer.drops) mask *= 2;  // and behind the last norm
  if (stack.role != StackSpec::Role::encoder || layer.norm != NormKind::layer) return mask;
  return mask + stored_norm(NormKind::layer, v) + 2 * v.element * elements;
}

/// In eager code, beside its layers: the encoder's output, which all layers of the decoder read; where positions are added
/// to the scores, masks of what is looked up and put out, the last norm, the numbers of the places' buckets of either stack,
/// and zeros that stand for a bias of attention over the encoder.
double stored_between(const Llm& llm, const StackSpec& stack, const View& v) {
  if (!v.eager()) return 0;
  const LayerSpec& layer = stack.kinds.front();
  double bytes = 0;
  if (&stack != &llm.main() && !v.autocast()) bytes += v.tokens * v.hidden * v.element;
  if (&stack != &llm.main() && v.source.ends_of_encoder) {
    const double mask = trains_with_dropout(layer, stack.role) ? v.tokens * v.hidden : 0;
    return bytes + v.source.outer_norms * stored_norm(layer.norm, v) + mask;
  }
  if (!v.source.biases_scores) return bytes;
  const double biases = v.source.biases_each_layer ? static_cast<double>(stack.order.size()) : 1;
  const auto* attention = layer.mixer.as<AttentionSpec>();
  bytes += biases * 8 * v.q_len * v.kv_len;
  if (layer.cross && v.flash() && attention != nullptr) {
    bytes += biases * d(attention->q_heads) / v.tp() * v.q_len * v.cross_len * v.element;
  }
  if (&stack == &llm.main()) return bytes;
  const double masks = trains_with_dropout(layer, stack.role) ? 2 * v.tokens * v.hidden : 0;
  return bytes + stored_norm(layer.norm, v) + masks;
}

/// Recomputed whole, a layer keeps its input alone; one layer at a time has all of it, the first ones when those behind them
/// keep nothing any more. So it is where a part is kept.
double stored_layers(const Llm& llm, const StackSpec& stack, View& v, const TrainingStage& stage, double parts) {
  const std::vector<std::int64_t> repeats = layers_of_stage(llm, stack, stage.of, stage.number);
  const Training& t = v.w.training;
  const bool full = t.recompute == Recompute::full, part = t.recompute == Recompute::products;
  const bool copied = t.offload == Offload::activations;
  const std::vector<std::int64_t> again =
      t.recomputed_layers > 0 ? layers_by_kind(stack, {0, t.recomputed_layers}) : repeats;
  const double input =
      v.tokens * v.hidden * (v.autocast() ? 4 : v.element);  // autocast leaves the residual stream in fp32
  double bytes = 0, inputs = 0, most = 0;
  for (std::size_t i = 0; i < stack.kinds.size(); ++i) {
    const LayerSpec& l = stack.kinds[i];
    v.dropout = trains_with_dropout(l, stack.role);
    const double layer = repeats[i] > 0 ? stored_layer(l, v) : 0;  // the view holds the tokens of both MMDiT streams
    const double kept = part && repeats[i] > 0 ? stored_products(l, v) : layer;
    const double of_inputs = full ? parts * d(again[i]) * input : 0;
    inputs += of_inputs;
    bytes += of_inputs + parts * d(repeats[i] - (full ? again[i] : 0)) * kept;
    most = std::max(most, layer);
  }
  if (copied) return std::min(bytes, 2 * most);  // the layer at work, and one on its way to the host or back
  if (v.eager() || !(full || part)) return bytes;
  return full ? std::max(bytes, inputs + most) : bytes + most;
}

/// Of what is kept of the residual stream, norms and gathered inputs, where tensor ranks share it.
View view_of_share(const Llm& llm, const Workload& w, const Types& types, const StackSpec& stack) {
  View v = view_of(llm, w, types, stack);
  if (scattered(llm, w)) v.shards = v.tp();
  v.hidden /= v.shards;
  return v;
}

/// Of the norms around a stack those behind its layers: one, where there is any.
double last_norms(const View& v) { return v.eager() ? std::min(v.source.outer_norms, 1) : 1; }

/// What the norm behind the layers and the head read.
double stored_behind(const StackSpec& stack, const View& v) {
  return last_norms(v) * stored_norm(stack.kinds.front().norm, v) + v.tokens * v.hidden * v.element;
}

}  // namespace

Bytes stored_behind_layers(const Llm& llm, const Workload& w, const Types& types) {
  return stored_behind(llm.main(), view_of_share(llm, w, types, llm.main())) * units::B;
}

Bytes stored_activations(const Llm& llm, const Workload& w, const Types& types, const TrainingStage& stage) {
  const double parts = under_way(w, stage);
  const bool last = stage.number + 1 == stage.of;
  double bytes = 0;
  for (const StackSpec& stack : llm.stacks) {
    if (!runs(llm, w, stack)) continue;
    View v = view_of_share(llm, w, types, stack);
    bytes += stored_layers(llm, stack, v, stage, parts) + stored_between(llm, stack, v);
    if (&stack != &llm.main() || !last) continue;
    // Final norm and head inputs; logits, and in eager code their fp32 softmax.
    const double norms = v.eager() ? v.source.outer_norms : 1;
    bytes += stored_behind(stack, v) + (norms - last_norms(v)) * stored_norm(stack.kinds.front().norm, v);
    if (v.eager()) bytes += stored_ends(llm, stack, v);
    if (!v.eager()) bytes += logits(llm, w, v) * (v.flash() ? v.element : v.element + 4);
  }
  return bytes * units::B;
}

double kept_bytes_of(const Llm& llm, const Workload& rank, const Types& types, const StackSpec& stack,
                     std::size_t kind) {
  View v = view_of_share(llm, rank, types, stack);
  v.dropout = trains_with_dropout(stack.kinds[kind], stack.role);
  return stored_layer(stack.kinds[kind], v);
}

double logits_of(const Llm& llm, const Workload& w, const Types& types) {
  return logits(llm, w, view_of(llm, w, types, llm.main()));
}

}  // namespace plumbline::lowering
