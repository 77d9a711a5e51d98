// Activation memory of a step.
//
// Training, per layer, after Korthikanti et al., "Reducing activation recomputation" (arXiv 2205.05198) section 4.1:
// every input of an operator that its gradient needs is kept, each tensor once, dropout masks at one byte. For their
// GPT layer (heads x width = h, FFN 4h, dropout) the parts below add up to their
//     s b h (34 + 5 a s / h)
// without fusion; flash attention keeps one fp32 log-sum a query head instead of the 5 a s^2 b of scores.
#include <algorithm>

#include "ops/as_double.hpp"
#include "ops/facts/work.hpp"
#include "ops/memory/parts.hpp"
#include "ops/memory/source_keeps.hpp"
#include "ops/mixer/attention.hpp"
#include "ops/resolve/ranks.hpp"

namespace plumbline::lowering {
namespace {

struct View {
  const Workload& w;
  const Types& types;
  double element;     ///< bytes of one activation
  double shards = 1;  ///< tensor ranks that the residual stream is split over, of whose tokens `hidden` is a share
  double hidden = 0, tokens = 0, q_len = 0, kv_len = 0, all_keys = 0, cross_tokens = 0, cross_len = 0;
  bool dropout = false;
  SourceKeeps source{};           ///< of eager code
  std::string_view activation{};  ///< what the model's source calls it
  bool eager() const { return w.phase == Phase::train && w.training.eager; }
  /// Bytes of what experts' products keep of their inputs for the gradient of their weights: in fp8 the cast rows, which
  /// Transformer Engine keeps in their place (transformer_engine/pytorch/module/grouped_linear.py).
  double input_of_experts() const {
    return w.phase == Phase::train && !eager() && types.experts.math == DType::fp8 ? 1 : of_experts();
  }
  /// Of what is between experts' products: autocast leaves those in fp32 (data/launches/transformers-training.json).
  double of_experts() const { return autocast() ? 4 : element; }
  bool autocast() const { return eager() && w.training.autocast(types.base); }
  /// Bytes of a normalized element that an eager RMSNorm keeps: of heads, and of the residual stream, which autocast leaves
  /// in fp32.
  double normalized() const { return source.wide_norms || (source.norms_turned && autocast()) ? 4 : element; }
  double normalized_stream() const { return autocast() ? 4 : normalized(); }
  bool flash() const {
    const bool fused = w.fusion != Fusion::none || w.fused_attention;
    return fused && !(w.phase == Phase::train && w.training.written_out);
  }
  /// No scores are kept.
  bool no_scores() const {
    return flash() || (w.phase == Phase::train && w.training.recompute == Recompute::selective);
  }
  /// Bytes of each score where they are not what a mixer counts by itself: a stack's own, and what the source of the model
  /// keeps of the tangent that caps scores, or drops of them.
  double score_bytes() const {
    if (w.phase != Phase::train) return 0;
    if (w.training.score_bytes > 0 || !eager()) return w.training.score_bytes;
    if (source.bounds_scores && autocast()) return 8 + element + (dropout ? 1 : 0);
    if (source.bounds_scores) return 2 * element + (dropout ? 1 + element : 0);
    const double probabilities = narrow_softmax() && !autocast() ? element : 4 + element;
    return source.caps_scores ? element + probabilities : source.keeps_all_scores ? probabilities : 0;
  }
  double tp() const { return d(w.parallel.tensor); }
  /// In data-parallel attention a rank has a share of the sequences, and all heads.
  MixerLoad load() const {
    const bool decode = w.phase == Phase::decode, own = w.parallel.attention_data;
    const double sequences = own ? d(w.batch) / tp() : d(w.batch), mine = own ? tokens / tp() : tokens;
    return {mine,
            hidden,
            decode ? mine : sequences * all_keys,
            kv_len,
            element,
            own ? 1 : tp(),
            no_scores(),
            dropout,
            decode,
            w.fusion == Fusion::max,
            eager(),
            narrow_softmax() ? element : 4.0,
            normalized(),
            score_bytes()};
  }
  bool narrow_softmax() const { return source.narrow_softmax || (source.softmax_as_scores && !autocast()); }
  /// Positions that are added to the scores (T5) lie head behind head and have a gradient: cuDNN's attention takes no mask
  /// with a gradient, no fused kernel one whose last dimension is strided (check_attn_mask_shape() and
  /// check_last_dim_stride_equals_1_dense() of sdp_utils_cpp.h), so that scaled_dot_product_attention writes the scores out,
  /// in fp32 (_scaled_dot_product_attention_math()).
  bool writes_scores_in_fp32() const { return eager() && source.biases_scores && flash(); }
  MixerLoad self_load() const {
    MixerLoad made = load();
    if (!writes_scores_in_fp32()) return made;
    made.flash = false;
    made.score_bytes = dropout ? 4 + 1 + 4 : 4;  // softmax, and what dropout makes of it
    return made;
  }
  MixerLoad cross_load() const {
    MixerLoad over_encoder = load();
    over_encoder.kv_tokens = cross_tokens;
    over_encoder.kv_len = cross_len;
    return over_encoder;
  }
};

/// Input, inputs and result of the activation (SwiGLU recomputes its product at `max`), mask of the output's dropout.
/// `input_bytes` and `element`: of an element of its input, and of what else its products and its activation read.
double stored_dense(const FfnSpec& f, const View& v, double rows, double in, double width, double input_bytes,
                    double element) {
  const double gates = f.gated ? 2 : 1;
  double kept = gates * width;                                           // gate and up, or up
  const double read = f.gated && v.w.fusion == Fusion::max ? 0 : width;  // by the down projection
  if (f.gated && (!v.flash() || v.eager())) kept += width;               // eager code keeps silu(gate) as well
  double wide = 0, masks = 0;                                            // in fp32, of one byte
  if (v.eager()) {
    const ActivationKeeps more = activation_keeps(v.activation, f.activation, v.autocast());
    const double as_wide = more.wide_result && f.gated ? width : 0;
    kept += more.elements * width - as_wide;
    wide = more.in_fp32 * width + as_wide;
    masks = more.masks * width;
  }
  return rows * (input_bytes * (in + read) + element * kept + 4 * wide + masks);
}

/// Weights that a forward pass has compressed both ways stay until the backward pass has read them, a mask of a bit a weight
/// beside them.
double stored_weights(const FfnSpec& f, const View& v, double width) {
  if (v.w.phase != Phase::train || v.w.training.sparse == SparseWeights::none) return 0;
  const auto rows = static_cast<std::int64_t>(std::ceil((f.gated ? 3 : 2) * width / v.tp()));
  const auto cols = static_cast<std::int64_t>(v.hidden * v.shards);
  return work(Sparsify24{rows, cols, v.types.linear.weight}).write.in(units::B);
}

double stored_ffn(const FfnSpec& f, const View& v) {
  double bytes = v.dropout ? v.tokens * v.hidden : 0;
  bytes += stored_weights(f, v, d(f.is_moe() ? f.shared_width + f.width : f.width));
  if (!f.is_moe()) return bytes + stored_dense(f, v, v.tokens, v.hidden, d(f.width) / v.tp(), v.element, v.element);
  const ExpertPlan plan = expert_plan(v.w, f);
  // rows that travelled are those of the rank's own tokens in number; tensor ranks of the same tokens have their experts'
  const double share = plan.fullest / (plan.exchanged ? v.tp() : d(plan.ranks));
  const double in = f.latent > 0 ? d(f.latent) : v.hidden * v.shards;  // gathered in front of them, or brought
  const double rows = share * v.tokens * d(f.topk);
  bytes += stored_dense(f, v, rows, in, d(f.expert_width) / d(plan.width_split), v.input_of_experts(), v.of_experts());
  // experts' results, for the gradient of the routing weights; Megatron-Core weighs what the down projection reads
  // (weighted_bias_swiglu_impl in megatron/core/transformer/moe/experts.py)
  if (v.eager() || v.w.fusion == Fusion::none) bytes += rows * v.of_experts() * in;
  bytes += v.tokens * v.element * (v.hidden + d(f.experts));  // router input and scores
  // as such experts have no activation of one kernel: the clamped gate, one more than up and their result, beside the sigmoid
  if (v.eager() && v.source.clamps_gate) bytes += 3 * rows * v.of_experts() * d(f.expert_width) / d(plan.width_split);
  if (v.eager() && v.source.jitters_rows) bytes += 2 * v.tokens * v.hidden * v.of_experts();
  if (v.eager() && v.source.routes_in_fp32 && !v.autocast() && v.element < 4) bytes += v.tokens * 4 * v.hidden;
  const double beside = d(f.shared_width + f.width) / v.tp();
  if (beside > 0) bytes += stored_dense(f, v, v.tokens, 0, beside, v.element, v.element);  // its input is the router's
  if (v.eager() && f.shared_gate) bytes += v.tokens * v.element * v.hidden;  // their result, for the gate's gradient
  return bytes;
}

/// 4 s b h for two norms: the input of each. Written out, an RMSNorm keeps its input in fp32, the normalized rows and a
/// number a row; a kernel of LayerNorm two numbers a row. One that subtracts the mean op by op keeps the difference, which it
/// makes twice, and the normalized rows, all in fp32.
double stored_norm(NormKind norm, const View& v, bool behind_product = false) {
  if (!v.eager()) return v.tokens * v.element * v.hidden;
  const double fp32 = 4;
  if (v.source.wide_centred_norms) return v.tokens * (3 * fp32 * v.hidden + fp32);
  const bool wide = (v.autocast() && !v.source.casts_layernorm) || v.source.wide_layernorm;
  const double stream = v.source.norms_stream && !v.autocast() ? v.element : 0;
  if (norm == NormKind::layer) return v.tokens * ((wide ? fp32 : v.element) * v.hidden + 2 * fp32);
  return v.tokens * ((stream + fp32 + (behind_product ? v.normalized() : v.normalized_stream())) * v.hidden + fp32);
}

/// A window that is no longer than the prompt is a mask, for whose sake keys and values are copied for each query head.
bool copies_values(const AttentionSpec& a, const View& v) {
  return a.kv_heads < a.q_heads && a.window > 0 && !a.chunked && v.kv_len >= d(a.window);
}

/// The values that attention keeps hold the joined result of queries, keys and values alive; queries that were joined lie head by
/// head, and so does attention's result, of which the output's product keeps a copy by tokens (in fp32, by PyTorch's own kernel,
/// the result lies by tokens whatever the queries do: aten/src/ATen/native/transformers/cuda/attention.cu). Heads whose width is no multiple of
/// 8 are kept as wide as they are filled up for the kernel, and the output's product has a copy without that.
double stored_views(const LayerSpec& l, const View& v) {
  const auto* attention = l.mixer.as<AttentionSpec>();
  if (!v.eager() || attention == nullptr) return 0;
  const double queries = d(attention->q_heads * attention->qk_dim), keys = d(attention->kv_heads * attention->qk_dim);
  const double pad = v.flash() ? d((8 - attention->qk_dim % 8) % 8) : 0;
  const double filled = 2 * pad * d(attention->q_heads + attention->kv_heads);
  const bool joined = (v.source.turns_part || l.rotary < 1) && v.element <= 2;
  const bool copied = (joined || pad > 0) && v.flash();  // written out it lies by tokens
  // products of several sequences copy values
  const bool views = v.source.views && (v.flash() ? !copies_values(*attention, v) : v.tokens <= v.q_len);
  return v.tokens * v.element / v.tp() * ((views ? queries + keys : 0) + (copied ? queries : 0) + filled);
}

/// Norms of heads that are a kernel of LayerNorm (Persimmon) keep two numbers a head, and of their input, a view of the joined
/// result, what autocast casts: in place of what a mixer counts of norms that are written out.
double stored_head_norms(const LayerSpec& l, const View& v) {
  const auto* attention = l.mixer.as<AttentionSpec>();
  if (!v.eager() || attention == nullptr || attention->qk_norm == 0 || attention->qk_norm_vectors != 2) return 0;
  const double heads = d(attention->q_heads + attention->kv_heads) / v.tp(), width = d(attention->qk_dim);
  return v.tokens * heads * ((v.autocast() ? 4 * width : 0) + 8 - (width * (4 + v.normalized()) + 4));
}

/// Queries and keys of a product in fp32 are twice as wide (GPT-J, GPT-Neo).
/// Attention that PyTorch takes apart in fp32 (_scaled_dot_product_attention_math) keeps probabilities, and what its two
/// products read: scaled queries, and keys and values copied for each query head.
double stored_scores(const LayerSpec& l, const View& v) {
  const auto* attention = l.mixer.as<AttentionSpec>();
  if (!v.eager() || attention == nullptr) return 0;
  if (v.source.wide_scores && !v.flash() && !v.autocast()) {  // which casts both back for the product
    return (4 - v.element) * v.tokens / v.tp() * d((attention->q_heads + attention->kv_heads) * attention->qk_dim);
  }
  if (!v.flash() || !v.source.broadcasts_keys || attention->kv_heads > 1) return 0;
  const double fp32 = 4, heads = d(attention->q_heads) / v.tp();
  return fp32 * v.tokens * heads * (v.kv_len + 2 * d(attention->qk_dim) + d(attention->v_dim));
}

/// Beside what attention keeps by itself where positions are added to its scores: queries, keys and values are in fp32, and a
/// decoder's layers keep who sees whom.
double stored_biased(const LayerSpec& l, const View& v) {
  const auto* attention = l.mixer.as<AttentionSpec>();
  if (!v.writes_scores_in_fp32() || attention == nullptr) return 0;
  const double fp32 = 4, columns = d(attention->q_heads * (2 * attention->qk_dim + attention->v_dim)) / v.tp();
  const double seen = attention->causal ? v.q_len * v.kv_len : 0;
  return v.tokens * columns * (fp32 - v.element) + seen;
}

/// Of DeBERTa's scores by distance: what both were gathered from and by which index, the divided keys, the table as it was
/// dropped from and, projected twice, for each sequence, and a mask of pairs. The table has as many rows as those of published
/// models, 256 buckets each way.
double stored_distances(const LayerSpec& l, const View& v) {
  const auto* attention = l.mixer.as<AttentionSpec>();
  if (!v.eager() || !v.source.scores_distances || attention == nullptr) return 0;
  const double rows = 512, width = d(attention->q_heads * attention->qk_dim) / v.tp();
  const double scores = 2 * v.tokens * rows * d(attention->q_heads) / v.tp();
  const double heads = v.tokens * width + 2 * v.tokens / v.q_len * rows * width;
  const double table = rows * v.hidden * ((v.autocast() ? 2 : 1) * v.element + 1);
  return v.element * (scores + heads) + table + (2 * 8 * v.q_len + v.tokens) * v.kv_len;
}

/// Inside a feed-forward part that drops what its down projection reads: the mask, and of a part without gate, whose
/// activation keeps its result, what is left of it.
double stored_inner_dropout(const LayerSpec& l, const View& v) {
  if (!(l.drops || l.drops_inner) || !v.dropout || !l.ffn || l.ffn->is_moe()) return 0;
  const double left = v.eager() && !l.ffn->gated && l.ffn->activation == Activation::relu ? v.element : 0;
  return v.tokens * d(l.ffn->width) / v.tp() * (1 + left);
}

/// Casts that autocast makes of a feed-forward part's input beside one: a dense part's second product, and of a mixture,
/// whose router's is the one and whose experts read fp32, each product's of the expert that tokens share.
double further_casts(const FfnSpec& f, bool joined_gate) {
  const double products = f.gated && !joined_gate ? 2 : 1;
  if (!f.is_moe()) return products - 1;
  return f.shared_width + f.width > 0 ? products + (f.shared_gate ? 1 : 0) : 0;
}

/// Of the inputs of a layer's products, how many are kept beside one of its attention and one of its feed-forward part.
/// Autocast casts the input of each matrix by itself: queries, keys and values have three, gate and up two. Parts that stand
/// beside each other read the same norm, or their norms the same rows.
double further_inputs(const LayerSpec& l, const View& v) {
  const bool beside = l.parallel_block && l.mixer && l.ffn;
  if (!v.autocast()) return beside ? -1 : 0;
  if (v.source.casts_layernorm) return 0;
  const double casts = l.ffn ? further_casts(*l.ffn, v.source.joined_gate) : 0;
  const double same_rows = beside && l.norms > 1 ? 4 / v.element : 0;  // in fp32
  return (v.source.joined_queries ? 0.0 : 2.0) + casts - same_rows;
}

double stored_layer(const LayerSpec& l, const View& v) {
  const int behind = v.source.norms_behind ? l.norms : std::max(0, l.norms - 2);  // of what a product made
  double bytes = (l.norms - behind) * stored_norm(l.norm, v) + behind * stored_norm(l.norm, v, true);
  if (v.eager()) bytes += v.tokens * v.element * v.hidden * further_inputs(l, v);
  if (l.mixer) bytes += l.mixer->stored(v.self_load()) + stored_views(l, v) + stored_biased(l, v) + stored_scores(l, v);
  bytes += stored_head_norms(l, v) + stored_inner_dropout(l, v) + stored_distances(l, v);
  if (v.eager() && v.dropout && l.mixer && v.source.keeps_mixed)
    bytes -= v.tokens * v.hidden;  // a mask that is not made
  if (l.cross) bytes += l.cross->stored(v.cross_load());
  if (l.cross && v.autocast()) bytes += 2 * v.cross_tokens * v.element * v.hidden;  // casts of the encoder's output
  if (l.ffn) bytes += stored_ffn(*l.ffn, v);
  if (l.feed) bytes += l.feed->stored(v.load());
  return bytes;
}

/// Recompute::products: a layer's input, what attention keeps beside its own, and the first product of a dense part.
double stored_products(const LayerSpec& l, const View& v) {
  const double input = v.tokens * v.hidden * v.element;
  double bytes = l.mixer ? l.mixer->stored(v.load()) : input;  // with the input of its products in the layer's place
  if (l.cross) bytes += l.cross->stored(v.cross_load());
  if (l.feed) bytes += l.feed->stored(v.load());
  if (!l.ffn) return bytes;
  if (l.ffn->is_moe()) return bytes + stored_ffn(*l.ffn, v);
  return bytes + v.tokens * v.element * (l.ffn->gated ? 2 : 1) * d(l.ffn->width) / v.tp();
}

double expert_split(const FfnSpec& f, const View& v) { return d(expert_plan(v.w, f).width_split); }

/// Rows that this rank's experts get: those of its own tokens in number where tokens travel, else its share of them.
double routed_rows(const FfnSpec& f, const View& v) {
  const ExpertPlan plan = expert_plan(v.w, f);
  const double all = v.tokens * d(f.topk);
  if (plan.ranks == 1) return all;
  return plan.fullest * (plan.exchanged ? all / v.tp() : all / d(plan.ranks));
}

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

View view_of(const Llm& llm, const Workload& w, const Types& types, const StackSpec& stack) {
  const Lengths n = lengths_of(llm, w, stack);
  View v{w, types, bits(types.base) / 8};
  v.source = source_keeps(llm);
  v.activation = llm.activation;
  v.hidden = d(stack.hidden > 0 ? stack.hidden : llm.hidden);
  v.q_len = d(n.q_len + n.text_tokens);
  v.kv_len = d(n.kv_len + n.text_tokens);
  v.all_keys = d(n.all_keys + n.text_tokens);
  v.tokens = d(w.batch) * v.q_len;
  v.cross_len = d(n.cross_len);
  v.cross_tokens = d(w.batch) * v.cross_len;
  return v;
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

namespace {

/// Micro-batches whose activations a stage keeps at a time, in layers of all its chunks: all of them; as many as there are
/// stages from it on; with chunks the forward passes that it makes ahead (model/schedule/training.cpp has the orders).
double under_way(const Workload& w, const TrainingStage& stage) {
  const double all = d(stage.micro_batches), behind = d(stage.of - stage.number - 1), chunks = d(w.training.chunks);
  switch (w.training.schedule) {
    case PipelineSchedule::gpipe: return all;
    case PipelineSchedule::interleaved: return std::min(all, (2 * behind + (chunks - 1) * d(stage.of) + 1) / chunks);
    case PipelineSchedule::dual_pipe:
    case PipelineSchedule::dual_pipe_v: return std::min(all, (d(stage.of) + 1) / 2);  // of each of two stages
    case PipelineSchedule::zero_bubble: return std::min(all, d(stage.of));
    default: return std::min(all, behind + 1);
  }
}

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

/// Of the norms around a stack those behind its layers: one, where there is any.
double last_norms(const View& v) { return v.eager() ? std::min(v.source.outer_norms, 1) : 1; }

/// What the norm behind the layers and the head read.
double stored_behind(const StackSpec& stack, const View& v) {
  return last_norms(v) * stored_norm(stack.kinds.front().norm, v) + v.tokens * v.hidden * v.element;
}

}  // namespace

Bytes stored_behind_layers(const Llm& llm, const Workload& w, const Types& types) {
  return stored_behind(llm.main(), view_of(llm, w, types, llm.main())) * units::B;
}

Bytes stored_activations(const Llm& llm, const Workload& w, const Types& types, const TrainingStage& stage) {
  const double parts = under_way(w, stage);
  const bool last = stage.number + 1 == stage.of;
  double bytes = 0;
  for (const StackSpec& stack : llm.stacks) {
    if (!runs(llm, w, stack)) continue;
    View v = view_of(llm, w, types, stack);
    if (scattered(llm, w)) v.shards = v.tp();
    v.hidden /= v.shards;  // what is kept of the residual stream, norms and gathered inputs
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
  View v = view_of(llm, rank, types, stack);
  if (scattered(llm, rank)) v.shards = v.tp();
  v.hidden /= v.shards;
  v.dropout = trains_with_dropout(stack.kinds[kind], stack.role);
  return stored_layer(stack.kinds[kind], v);
}

double logits_of(const Llm& llm, const Workload& w, const Types& types) {
  return logits(llm, w, view_of(llm, w, types, llm.main()));
}

namespace {

/// The gradient of the residual stream, which waits for what a layer's part adds to it.
double waiting_gradient(const View& v) { return v.tokens * v.hidden * (v.autocast() ? 4 : v.element); }

/// In the backward pass of an attention that is written out, the gradient of the probabilities, its product with them, which
/// lives inside softmax's (softmax_backward_cuda_out() of aten/src/ATen/native/cuda/SoftMax.cu), and the gradient of the scores
/// are there at once; gone are what the part behind attention kept, and what dropout and the second product read.
Beside beside_scores(const LayerSpec& l, const View& v) {
  const auto* attention = l.mixer.as<AttentionSpec>();
  if (attention == nullptr) return {};
  const bool fp32 = v.writes_scores_in_fp32() || (v.flash() && stored_scores(l, v) > 0);
  if (v.no_scores() && !fp32) return {};
  const double wide = fp32 || !v.narrow_softmax() ? 4 : v.element, heads = d(attention->q_heads) / v.tp();
  const double dropped = v.dropout && !v.source.keeps_all_scores ? 1 + (fp32 ? 4 : v.element) : 0;
  const double cast = fp32 || v.narrow_softmax() ? 0 : v.element;
  const double scores = (3 * wide - dropped - cast) * v.tokens * v.kv_len * heads;
  const double behind = (l.ffn ? stored_ffn(*l.ffn, v) : 0) + (l.cross ? l.cross->stored(v.cross_load()) : 0) +
                        v.tokens * v.element * heads * d(attention->v_dim);
  const double keys = d(attention->kv_heads) * d(attention->qk_dim + attention->v_dim);
  const double projections = v.hidden * (d(attention->q_heads * attention->qk_dim) + keys) / v.tp();
  return {scores - behind + waiting_gradient(v), l.params / v.tp() - projections};
}

/// In that of a dense feed-forward part: gradients of what its activation reads, when its last matrix has its own and autocast's
/// cast of that is gone.
Beside beside_dense(const LayerSpec& l, const View& v) {
  if (!l.ffn || l.ffn->is_moe()) return {};
  const double width = d(l.ffn->width) / v.tp(), matrix = v.hidden * width;
  const double made = v.tokens * width * v.element * (l.ffn->gated ? 2 : 1) + waiting_gradient(v);
  return {made - (v.autocast() ? v.element * matrix : 0), matrix};
}

/// Rows of a rank's experts, and how wide their matrices are.
struct ExpertRows {
  double rows = 0, width = 0;

  ExpertRows(const FfnSpec& f, const View& v) {
    const ExpertPlan plan = expert_plan(v.w, f);
    const double share = plan.fullest / (plan.exchanged ? v.tp() : d(plan.ranks));
    rows = share * v.tokens * d(f.topk);
    width = d(f.expert_width) / d(plan.width_split);
  }
};

/// In that of experts, where their activation is: the gradient of its product and of both factors, when the last matrices have
/// theirs; gone are the product and the results that weights of the routing multiplied. (Of a part without gate it is less.)
Beside beside_experts_activation(const LayerSpec& l, const View& v) {
  if (!l.ffn || !l.ffn->is_moe()) return {};
  const ExpertRows of(*l.ffn, v);
  const double in = l.ffn->latent > 0 ? d(l.ffn->latent) : v.hidden, matrices = l.ffn->gated ? 3 : 2;
  const double more = of.rows * v.of_experts() * ((matrices - 1) * of.width - in);
  return {more + waiting_gradient(v), l.expert_params / matrices / v.tp()};
}

/// In that of experts, at their first matrices: the gradient of what their activation read, when all matrices have theirs; gone is
/// what the activation kept. The gradient of the rows that came in stands where the results did.
Beside beside_experts(const LayerSpec& l, const View& v) {
  if (!l.ffn || !l.ffn->is_moe()) return {};
  const ExpertRows of(*l.ffn, v);
  const double gone = stored_dense(*l.ffn, v, of.rows, 0, of.width, v.input_of_experts(), v.of_experts());
  const double made = of.rows * v.of_experts() * (l.ffn->gated ? 2 : 1) * of.width;
  return {made - gone + waiting_gradient(v), l.expert_params / v.tp()};
}

}  // namespace

std::vector<Beside> beside_layers(const Llm& llm, const Workload& w, const Types& types) {
  std::vector<Beside> found;
  if (llm.stacks.size() > 1)
    return found;  // layers of an encoder and a decoder keep unlike, and are not told apart here
  for (const StackSpec& stack : llm.stacks) {
    if (!runs(llm, w, stack)) continue;
    View v = view_of(llm, w, types, stack);
    for (const LayerSpec& l : stack.kinds) {
      v.dropout = trains_with_dropout(l, stack.role);
      const double kept = stored_layer(l, v);
      for (const Beside& beside : {beside_scores(l, v), beside_dense(l, v), beside_experts(l, v), beside_experts_activation(l, v)}) {
        found.push_back({beside.bytes, beside.params, kept});
      }
    }
  }
  return found;
}

double most_of_a_layer(const Llm& llm, const Workload& w, const Types& types) {
  double most = 0;
  for (const StackSpec& stack : llm.stacks) {
    if (!runs(llm, w, stack)) continue;
    View v = view_of(llm, w, types, stack);
    for (const LayerSpec& l : stack.kinds) {
      v.dropout = trains_with_dropout(l, stack.role);
      most = std::max(most, stored_layer(l, v));
    }
  }
  return most;
}

}  // namespace plumbline::lowering
