// One layer: its parts in order, with norms and residual adds where the fusion level puts them.
//
// * none: norm, part, a second norm where the model has one, and the add are kernels of their own.
// * typical: the add is fused into the next norm (Rowwise.residual), so a layer begins with add + norm. The first
//   layer's norm has nothing to add and the final norm has; lowering folds layers, so it writes the residual form for
//   all layers and the plain form for the final norm: as many adds as there are.
//   Training adds apart (adds_apart below).
// * max: a second norm behind a part (Gemma 2/3) joins add + norm in one kernel; a quantized consumer gets its input
//   from the norm in that format. No kernel of today fuses a row norm into the GEMM before it, so neither does this.
#include "ops/lower/parts.hpp"
#include "ops/mixer/attention.hpp"
#include "ops/mixer/attention_core.hpp"

namespace plumbline::lowering {

NormPlan norm_plan(const LayerSpec& l) {
  NormPlan plan;
  plan.parts = (l.mixer ? 1 : 0) + (l.cross ? 1 : 0) + (l.ffn || l.feed ? 1 : 0);
  plan.pre = l.norms >= plan.parts || (l.parallel_block && l.norms > 0);
  plan.post = l.norms >= 2 * plan.parts && !l.parallel_block;
  return plan;
}

namespace {

/// Training adds in a kernel of its own, with bias and dropout (megatron/core/fusions/fused_bias_dropout.py): the norm's
/// backward pass needs the sum, and the gradient that passes the norm by is added by another one.
bool adds_apart(const Step& s) { return s.none() || (s.train() && !s.max()); }

/// Behind a part: the add. Its dropout is in the same kernel, whose mask (half a byte beside six) is not counted.
void residual_add(Step& s, NodeTag name) {
  s.row(s.dropout && !s.none() ? name.as(NodeRole::dropped) : name, RowwiseKind::add, s.tokens, s.hidden);
}

/// Norm in front of a part that reads `consumer`; fused with the add before it from `typical` on.
void pre_norm(Step& s, const LayerSpec& l, NodeTag name, const Precision* consumer) {
  const bool narrow = s.max() && consumer != nullptr && s.types.quantizes(*consumer);
  const RowwiseKind kind = l.norm == NormKind::rms ? RowwiseKind::rmsnorm : RowwiseKind::layernorm;
  s.add(name, Rowwise{kind, s.tokens, s.hidden, !adds_apart(s), s.types.base, narrow ? consumer->input : s.types.base});
}

/// adaLN (DiT): eager code scales and shifts the norm's result and gates the part's result; fused code does both in the
/// norm and add kernels.
void modulate(Step& s, const LayerSpec& l, NodeTag name) {
  if (l.modulation_width > 0 && s.none()) s.row(name, RowwiseKind::scale, s.tokens, s.hidden);
}

struct PartNames {
  NodeTag norm, modulate, post_norm, gate, dropout, add, gather;
};
constexpr PartNames kMixer{"attn_norm"_node,          "attn_modulate"_node,    "attn_post_norm"_node,
                           "attn_modulate_gate"_node, "attn_out_dropout"_node, "attn_residual_add"_node,
                           "attn_all_gather"_node};
constexpr PartNames kCross{"cross_norm"_node,          "cross_modulate"_node,    "cross_post_norm"_node,
                           "cross_modulate_gate"_node, "cross_out_dropout"_node, "cross_residual_add"_node,
                           "cross_all_gather"_node};
constexpr PartNames kFfn{"ffn_norm"_node,    "ffn_modulate"_node,     "ffn_post_norm"_node, "ffn_modulate_gate"_node,
                         "ffn_dropout"_node, "ffn_residual_add"_node, "ffn_all_gather"_node};

void before(Step& s, const LayerSpec& l, const NormPlan& plan, const PartNames& names, const Precision* consumer) {
  if (plan.pre) {
    pre_norm(s, l, names.norm, consumer);
    modulate(s, l, names.modulate);
  }
}

void after(Step& s, const LayerSpec& l, const NormPlan& plan, const PartNames& names) {
  if (plan.post && !s.max()) s.norm(names.post_norm, l.norm, s.tokens, s.hidden);
  modulate(s, l, names.gate);
  // Fused code drops in the kernel that adds; without a norm to carry the add it stands alone.
  if (s.dropout && s.none()) s.row(names.dropout, RowwiseKind::dropout, s.tokens, s.hidden);
  if (adds_apart(s) || !plan.pre) residual_add(s, names.add);
}

/// The mixer on its ranks: split by heads over the tokens of all tensor ranks, or whole on this rank's sequences.
void mix(Step& s, const Mixer& mixer, NodeTag gather) {
  if (!s.workload.parallel.attention_data) return s.on_replica(gather, [&] { mixer.lower(s); });
  s.tensor = 1;
  mixer.lower(s);
  s.tensor = s.workload.parallel.tensor;
}

/// The feed-forward part: one of the model's file, or one that a graph file writes out.
void feed_forward(Step& s, const LayerSpec& l) {
  if (l.ffn) return ffn(s, *l.ffn);
  s.on_replica(kFfn.gather, [&] { l.feed->lower(s); });
}

/// Attention and FFN read one norm (or each its own, of the same input) and are added together.
void parallel_layer(Step& s, const LayerSpec& l, const NormPlan& plan) {
  if (plan.pre) pre_norm(s, l, kMixer.norm, nullptr);
  modulate(s, l, kMixer.modulate);
  if (l.norms > 1) s.norm(kFfn.norm, l.norm, s.tokens, s.hidden);
  const int entry = s.last;
  mix(s, *l.mixer, kMixer.gather);
  const int mixed = s.last;
  if (l.ffn || l.feed) {
    s.last = entry;
    feed_forward(s, l);
    s.join = mixed;
    s.row("parallel_add"_node, RowwiseKind::add, s.tokens, s.hidden);
  }
  modulate(s, l, kFfn.gate);
  if (s.dropout && s.none()) s.row(kFfn.dropout, RowwiseKind::dropout, s.tokens, s.hidden);
  if (adds_apart(s) || !plan.pre) residual_add(s, kFfn.add);
}

/// Whole on every rank, and small: each a product of its own.
void beside(Step& s, const LayerSpec& l) {
  for (const BesideSpec::Matrix& matrix : l.beside.matrices) {
    s.linear("beside_proj"_node, s.tokens, matrix.out, matrix.in);
  }
  if (l.beside.streams > 1) {
    s.row("streams_read"_node, RowwiseKind::add, s.tokens, l.beside.streams * s.hidden);
    s.row("streams_write"_node, RowwiseKind::add, s.tokens, l.beside.streams * s.hidden);
  }
}

}  // namespace

void layer(Step& s, const LayerSpec& l) {
  if (l.double_stream) return double_stream_layer(s, l);
  if (l.written_out) return mix(s, *l.mixer, kMixer.gather);
  beside(s, l);
  if (l.modulation_width > 0) s.linear("modulation"_node, s.batch, l.modulation_width, s.hidden, true);
  const NormPlan plan = norm_plan(l);
  if (l.parallel_block) return parallel_layer(s, l, plan);
  const Precision* linear = &s.types.linear;
  if (l.mixer) {
    before(s, l, plan, kMixer, linear);
    mix(s, *l.mixer, kMixer.gather);
    after(s, l, plan, kMixer);
  }
  if (l.cross) {
    before(s, l, plan, kCross, linear);
    mix(s, *l.cross, kCross.gather);
    after(s, l, plan, kCross);
  }
  if (l.ffn || l.feed) {
    before(s, l, plan, kFfn, l.ffn && l.ffn->is_moe() ? nullptr : linear);  // the router reads 16 bits
    feed_forward(s, l);
    after(s, l, plan, kFfn);
  }
}

/// MMDiT: latents and text have their own projections and FFN and attend to each other (Stable Diffusion 3, arXiv
/// 2403.03206, figure 2). The second stream's kernels carry a `text_` name.
void double_stream_layer(Step& s, const LayerSpec& l) {
  const AttentionSpec& a = *l.mixer.as<AttentionSpec>();
  const std::int64_t latents = s.tokens, text = s.batch * s.text_tokens;
  const std::int64_t heads = s.share(a.q_heads), kv = s.share(a.kv_heads), out = heads * a.v_dim;
  const std::int64_t qkv = heads * a.qk_dim + kv * (a.qk_dim + a.v_dim), both = s.q_len + s.text_tokens;
  const NormPlan plan = norm_plan(l);
  if (l.modulation_width > 0) s.linear("modulation"_node, s.batch, l.modulation_width, s.hidden, true);
  const auto project = [&](std::int64_t rows, NodeTag norm_name, NodeTag scale_name, NodeTag quantize_name,
                           NodeTag name) {
    s.tokens = rows;
    if (plan.pre) pre_norm(s, l, norm_name, &s.types.linear);
    modulate(s, l, scale_name);
    s.quantize(quantize_name, rows, s.hidden, s.types.linear);
    s.linear(name, rows, qkv, s.hidden, a.qkv_bias);
  };
  project(latents, "attn_norm"_node, "attn_modulate"_node, "qkv_quantize"_node, "qkv_proj"_node);
  project(text, "text_attn_norm"_node, "text_modulate"_node, "text_qkv_quantize"_node, "text_qkv_proj"_node);
  const std::int64_t joined = latents + text;
  if (a.qk_norm > 0 && !s.max()) s.norm("qk_norm"_node, NormKind::rms, joined * (heads + kv), a.qk_dim);
  if (a.rope && !s.max()) s.add("rope"_node, Rope{joined, heads + kv, a.qk_dim, s.types.base});
  attention_core(s, {heads, kv, a.qk_dim, a.v_dim, both, both, false, 0, false, false, 0, s.types.base});
  const auto finish = [&](std::int64_t rows, NodeTag quantize_name, NodeTag name, NodeTag reduce_name,
                          NodeTag norm_name, const FfnNames& names) {
    s.tokens = rows;
    s.quantize(quantize_name, rows, out, s.types.linear);
    s.linear(name, rows, s.hidden, out, a.out_bias);
    s.all_reduce(reduce_name, names.scatter, rows);
    modulate(s, l, kMixer.gate);
    if (adds_apart(s) || !plan.pre) residual_add(s, kMixer.add);
    if (!l.ffn) return;
    if (plan.pre) pre_norm(s, l, norm_name, &s.types.linear);
    modulate(s, l, kFfn.modulate);
    dense_ffn(s, *l.ffn, l.ffn->width, names);
    s.all_reduce(names.reduce, names.scatter, rows);
    modulate(s, l, kFfn.gate);
    if (adds_apart(s) || !plan.pre) residual_add(s, kFfn.add);
  };
  finish(latents, "o_quantize"_node, "o_proj"_node, "attn_all_reduce"_node, "ffn_norm"_node, kFfnNames);
  if (!l.second_stream_ends) {
    finish(text, "text_o_quantize"_node, "text_o_proj"_node, "text_attn_all_reduce"_node, "text_ffn_norm"_node,
           kTextNames);
  }
  s.tokens = latents;
}

}  // namespace plumbline::lowering
