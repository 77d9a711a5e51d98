// What a layer keeps for its backward pass (activations.cpp says after whom).
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/facts/work.hpp"
#include "ops/memory/view.hpp"

namespace plumbline::lowering {

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

double expert_split(const FfnSpec& f, const View& v) { return d(expert_plan(v.w, f).width_split); }

double routed_rows(const FfnSpec& f, const View& v) {
  const ExpertPlan plan = expert_plan(v.w, f);
  const double all = v.tokens * d(f.topk);
  if (plan.ranks == 1) return all;
  return plan.fullest * (plan.exchanged ? all / v.tp() : all / d(plan.ranks));
}

/// Input, inputs and result of the activation (SwiGLU recomputes its product at `max`), mask of the output's dropout.
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

namespace {

/// Weights that a forward pass has compressed both ways stay until the backward pass has read them, a mask of a bit a weight
/// beside them.
double stored_weights(const FfnSpec& f, const View& v, double width) {
  if (v.w.phase != Phase::train || v.w.training.sparse == SparseWeights::none) return 0;
  const auto rows = static_cast<std::int64_t>(std::ceil((f.gated ? 3 : 2) * width / v.tp()));
  const auto cols = static_cast<std::int64_t>(v.hidden * v.shards);
  return work(Sparsify24{rows, cols, v.types.linear.weight}).write.in(units::B);
}

}  // namespace

double stored_ffn(const FfnSpec& f, const View& v) {
  double bytes = v.dropout && !(v.eager() && v.source.keeps_fed) ? v.tokens * v.hidden : 0;
  bytes += stored_weights(f, v, d(f.is_moe() ? f.shared_width + f.width : f.width));
  const double read = v.input_of_products();
  if (!f.is_moe()) return bytes + stored_dense(f, v, v.tokens, v.hidden, d(f.width) / v.tp(), read, v.element);
  const double in = f.latent > 0 ? d(f.latent) : v.hidden * v.shards;  // gathered in front of them, or brought
  const double rows = routed_rows(f, v), width = d(f.expert_width) / expert_split(f, v);
  bytes += stored_dense(f, v, rows, in, width, v.input_of_experts(), v.of_experts());
  // experts' results, for the gradient of the routing weights; Megatron-Core weighs what the down projection reads
  // (weighted_bias_swiglu_impl in megatron/core/transformer/moe/experts.py)
  if (v.eager() || v.w.fusion == Fusion::none) bytes += rows * v.of_experts() * in;
  bytes += v.tokens * v.element * (v.hidden + d(f.experts));  // router input and scores
  // as such experts have no activation of one kernel: the clamped gate, one more than up and their result, beside the sigmoid
  if (v.eager() && v.source.clamps_gate) bytes += 3 * rows * v.of_experts() * width;
  if (v.eager() && v.source.jitters_rows) bytes += 2 * v.tokens * v.hidden * v.of_experts();
  if (v.eager() && v.source.routes_in_fp32 && !v.autocast() && v.element < 4) bytes += v.tokens * 4 * v.hidden;
  const double beside = d(f.shared_width + f.width) / v.tp();
  if (beside > 0) bytes += stored_dense(f, v, v.tokens, 0, beside, read, v.element);  // its input is the router's
  if (v.eager() && f.shared_gate) bytes += v.tokens * v.element * v.hidden;  // their result, for the gate's gradient
  return bytes;
}

/// 4 s b h for two norms: the input of each. Written out, an RMSNorm keeps its input in fp32, the normalized rows and a
/// number a row; a kernel of LayerNorm two numbers a row. One that subtracts the mean op by op keeps the difference, which it
/// makes twice, and the normalized rows, all in fp32.
double stored_norm(NormKind norm, const View& v, bool behind_product) {
  if (!v.eager()) return v.tokens * v.element * v.hidden;
  const double fp32 = 4;
  if (v.source.wide_centred_norms) return v.tokens * (3 * fp32 * v.hidden + fp32);
  const bool wide = (v.autocast() && !v.source.casts_layernorm) || v.source.wide_layernorm;
  const double stream = v.source.norms_stream && !v.autocast() ? v.element : 0;
  if (norm == NormKind::layer) return v.tokens * ((wide ? fp32 : v.element) * v.hidden + 2 * fp32);
  return v.tokens * ((stream + fp32 + (behind_product ? v.normalized() : v.normalized_stream())) * v.hidden + fp32);
}

namespace {

/// A window that is no longer than the prompt is a mask, for whose sake keys and values are copied for each query head.
bool copies_values(const AttentionSpec& a, const View& v) {
  return a.kv_heads < a.q_heads && a.window > 0 && !a.chunked && v.kv_len >= d(a.window);
}

/// The values that attention keeps hold the joined result of queries, keys and values alive; queries that were joined lie head by
/// head, and so does attention's result, of which the output's product keeps a copy by tokens (in fp32, by PyTorch's own kernel,
/// the result lies by tokens whatever the queries do: aten/src/ATen/native/transformers/cuda/attention.cu). Heads whose width is no
/// multiple of 8 are kept as wide as they are filled up for the kernel, and the output's product has a copy without that.
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

}  // namespace

/// Queries and keys of a product in fp32 are twice as wide (GPT-J, GPT-Neo).
/// Attention that PyTorch takes apart in fp32 (_scaled_dot_product_attention_math) keeps probabilities, and what its two
/// products read: scaled queries, and keys and values copied for each query head; not what it made those of, nor a number a row.
double stored_scores(const LayerSpec& l, const View& v) {
  const auto* attention = l.mixer.as<AttentionSpec>();
  if (!v.eager() || attention == nullptr) return 0;
  if (v.source.wide_scores && !v.flash() && !v.autocast()) {  // which casts both back for the product
    return (4 - v.element) * v.tokens / v.tp() * d((attention->q_heads + attention->kv_heads) * attention->qk_dim);
  }
  if (!v.flash() || !v.source.broadcasts_keys || attention->kv_heads > 1) return 0;
  const double fp32 = 4, heads = d(attention->q_heads) / v.tp();
  const double each = d(attention->qk_dim) + d(attention->v_dim);
  const double made_of = v.element * (heads * d(attention->qk_dim) + d(attention->kv_heads) * each) + fp32 * heads;
  return v.tokens * (fp32 * heads * (v.kv_len + d(attention->qk_dim) + each) - made_of);
}

namespace {

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

}  // namespace

namespace {

/// What a mixer's first product keeps of its input, beyond what the mixer counts. Latent attention whose queries and latents
/// are made by two products keeps rows of each, which is not counted.
double stored_casts(const LayerSpec& l, const View& v) {
  if (!l.mixer) return 0;
  return v.tokens * v.hidden * (v.input_of_products() - v.element);
}

}  // namespace

double stored_layer(const LayerSpec& l, const View& v) {
  const int behind = v.source.norms_behind ? l.norms : std::max(0, l.norms - 2);  // of what a product made
  double bytes = (l.norms - behind) * stored_norm(l.norm, v) + behind * stored_norm(l.norm, v, true);
  if (v.eager()) bytes += v.tokens * v.element * v.hidden * further_inputs(l, v);
  else bytes += stored_casts(l, v);
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

double stored_products(const LayerSpec& l, const View& v) {
  const double input = v.tokens * v.hidden * v.element;
  double bytes = l.mixer ? l.mixer->stored(v.load()) : input;  // with the input of its products in the layer's place
  if (l.cross) bytes += l.cross->stored(v.cross_load());
  if (l.feed) bytes += l.feed->stored(v.load());
  if (!l.ffn) return bytes;
  if (l.ffn->is_moe()) return bytes + stored_ffn(*l.ffn, v);
  return bytes + v.tokens * v.element * (l.ffn->gated ? 2 : 1) * d(l.ffn->width) / v.tp();
}

}  // namespace plumbline::lowering
