// Softmax attention of one layer: projections, rotation, cache append and the attention itself at each fusion level.
//
// * none: q, k and v are GEMMs of their own. QK^T, scale, mask, softmax (dropout) and PV are kernels of their own, over
//   all pairs, masked or not. A copy writes the cache (a static cache; torch.cat would copy all of it), and grouped KV
//   heads are expanded by a copy first (`repeat_kv` of Hugging Face's eager code).
// * typical: one QKV GEMM and flash attention. One `rope` kernel rotates Q and K and writes K and V to the cache, in
//   prefill and in decode (vLLM: rotary_embedding, reshape_and_cache; one launch here as SGLang and FlashInfer fuse
//   them), so AttentionPrefill.append is 0. Its V heads are counted as rotated heads: the same bytes. Where the stack's
//   attention rotates and appends (TensorRT-LLM's, Workload::attention_rotates), there is no such node, append is 1. Heads
//   with a norm of their own are rotated where they are normed, by one launch that is counted as the rotation
//   (TensorRT-LLM's fusedQKNormRope); attention appends.
// * max: rotation and append happen inside the attention kernel (TensorRT-LLM's XQA and FMHA: append = 1), or in the
//   QKV epilogue when there is no cache. So does the QK norm (TensorRT-LLM's fusedQKNormRope).
#include "ops/mixer/attention.hpp"
#include "ops/mixer/attention_core.hpp"

namespace plumbline::lowering {
namespace {

void qkv_projection(Step& s, const AttentionSpec& a, std::int64_t q_heads, std::int64_t kv_heads) {
  const std::int64_t q_width = q_heads * a.qk_dim * (a.output_gate ? 2 : 1);
  const std::int64_t keys = a.reads_other_cache ? 0 : kv_heads;
  const std::int64_t k_width = keys * a.qk_dim, v_width = a.values_are_keys ? 0 : keys * a.v_dim;
  s.quantize("qkv_quantize"_node, s.tokens, s.hidden, s.types.linear);
  if (a.query_rank > 0) {
    if (s.none()) s.linear("q_a_proj"_node, s.tokens, a.query_rank, s.hidden);
    if (s.none()) s.linear("kv_proj"_node, s.tokens, k_width + v_width, s.hidden, a.qkv_bias);
    if (!s.none()) s.linear("qkv_proj"_node, s.tokens, a.query_rank + k_width + v_width, s.hidden, a.qkv_bias);
    s.norm("q_a_norm"_node, NormKind::rms, s.tokens, a.query_rank);
    s.quantize("q_quantize"_node, s.tokens, a.query_rank, s.types.linear);
    s.linear("q_b_proj"_node, s.tokens, q_width, a.query_rank);
    return;
  }
  if (!s.none()) {
    s.linear("qkv_proj"_node, s.tokens, q_width + k_width + v_width, s.hidden, a.qkv_bias);
    s.joins({q_width, k_width, v_width});
    return;
  }
  s.linear("q_proj"_node, s.tokens, q_width, s.hidden, a.qkv_bias);
  if (k_width > 0) s.linear("k_proj"_node, s.tokens, k_width, s.hidden, a.qkv_bias);
  if (v_width > 0) s.linear("v_proj"_node, s.tokens, v_width, s.hidden, a.qkv_bias);
}

/// Heads are normed and rotated by one launch, before an attention that rotates none.
bool norms_and_rotates(const Step& s, const AttentionSpec& a) {
  return !s.max() && s.attention_rotates() && a.qk_norm == 1 && a.rope;
}

/// Per head (1) both fit one launch over all heads; over the whole width (2) Q and K rows differ in length.
void qk_norm(Step& s, const AttentionSpec& a, std::int64_t q_heads, std::int64_t kv_heads) {
  if (a.qk_norm == 0) return;
  const bool per_head = a.qk_norm == 1;
  const NormKind kind = a.qk_norm_vectors == 2 ? NormKind::layer : NormKind::rms;
  const std::int64_t keys = a.reads_other_cache ? 0 : kv_heads;
  if (per_head && (s.max() || norms_and_rotates(s, a))) return;
  if (per_head && !s.none()) {
    s.norm("qk_norm"_node, kind, s.tokens * (q_heads + keys), a.qk_dim);
    return;
  }
  const std::int64_t split_q = per_head ? q_heads : 1, split_k = per_head ? kv_heads : 1;
  s.norm("q_norm"_node, kind, s.tokens * split_q, q_heads * a.qk_dim / split_q);
  if (keys > 0) s.norm("k_norm"_node, kind, s.tokens * split_k, kv_heads * a.qk_dim / split_k);
}

void rope_and_append(Step& s, const AttentionSpec& a, std::int64_t q_heads, std::int64_t kv_heads) {
  const DType type = s.types.base;
  if (s.max()) return;
  if (norms_and_rotates(s, a)) {
    s.add("rope"_node, Rope{s.tokens, q_heads + (a.reads_other_cache ? 0 : kv_heads), a.qk_dim, type});
    return;
  }
  if (a.reads_other_cache) {
    if (a.rope) s.add("q_rope"_node, Rope{s.tokens, q_heads, a.qk_dim, type});
    return;
  }
  if (s.attention_rotates()) return;
  if (s.none()) {
    if (a.rope) s.add("q_rope"_node, Rope{s.tokens, q_heads, a.qk_dim, type});
    if (a.rope) s.add("k_rope"_node, Rope{s.tokens, kv_heads, a.qk_dim, type});
    if (s.cache) s.copy("kv_append"_node, s.tokens, kv_heads * (a.qk_dim + a.v_dim));
    return;
  }
  if (a.rope) {
    s.add("rope"_node, Rope{s.tokens, q_heads + kv_heads * (s.cache ? 2 : 1), a.qk_dim, type});
  } else if (s.cache) {
    s.copy("kv_append"_node, s.tokens, kv_heads * (a.qk_dim + a.v_dim));
  }
}

/// sigmoid(gate) x attention output: one kernel, or two in eager code, or the attention's own epilogue. The fused
/// kernel moves what a SwiGLU kernel moves and is lowered as one.
void output_gate(Step& s, std::int64_t width) {
  if (s.max()) return;
  if (s.none()) {
    s.row("gate_act"_node, RowwiseKind::sigmoid, s.tokens, width);
    s.row("gate_mul"_node.as(NodeRole::product), RowwiseKind::add, s.tokens, width);
  } else {
    s.row("attn_gate"_node, RowwiseKind::swiglu, s.tokens, width);
  }
}

void out_projection(Step& s, const AttentionSpec& a, std::int64_t q_heads) {
  s.quantize("o_quantize"_node, s.tokens, q_heads * a.v_dim, s.types.linear);
  s.linear("o_proj"_node, s.tokens, s.hidden, q_heads * a.v_dim, a.out_bias);
  s.all_reduce("attn_all_reduce"_node, "attn_reduce_scatter"_node, s.tokens);
}

void attend(Step& s, const AttentionSpec& a) {
  const std::int64_t q_heads = s.share(a.q_heads), kv_heads = s.share(a.kv_heads);
  qkv_projection(s, a, q_heads, kv_heads);
  qk_norm(s, a, q_heads, kv_heads);
  rope_and_append(s, a, q_heads, kv_heads);
  if (a.value_mask) s.linear("mask_proj"_node, s.tokens, kv_heads, kv_heads * a.v_dim);
  gather_context(s, kv_heads * (a.qk_dim + a.v_dim), s.kept());
  attention_core(s, {q_heads, kv_heads, a.qk_dim, a.v_dim, s.q_len, s.kv_len, a.causal, a.window, a.chunked, s.decode,
                     s.attention_rotates() && s.cache && !a.reads_other_cache ? 1 : 0, s.kept()});
  merge_context(s, q_heads, a.v_dim);
  if (a.output_gate) output_gate(s, q_heads * a.v_dim);
  if (a.head_gates) {
    s.linear("gate_proj"_node, s.tokens, q_heads, s.hidden);
    if (!s.max()) s.row("attn_gate"_node, RowwiseKind::scale, s.tokens, q_heads * a.v_dim);
  }
  if (a.output_norm && !s.max()) s.norm("attn_sub_norm"_node, NormKind::rms, s.tokens, q_heads * a.v_dim);
}

/// Queries of the decoder over keys of the encoder. K and V are projected once, in the step that runs the encoder.
void cross_attention(Step& s, const AttentionSpec& a) {
  const std::int64_t q_heads = s.share(a.q_heads), kv_heads = s.share(a.kv_heads);
  const std::int64_t source = s.batch * s.cross_len, k_width = kv_heads * a.qk_dim, v_width = kv_heads * a.v_dim;
  s.quantize("cross_q_quantize"_node, s.tokens, s.hidden, s.types.linear);
  s.linear("cross_q_proj"_node, s.tokens, q_heads * a.qk_dim, s.hidden, a.qkv_bias);
  if (!s.decode) {
    s.quantize("cross_kv_quantize"_node, source, s.hidden, s.types.linear);
    if (s.none()) {
      s.linear("cross_k_proj"_node, source, k_width, s.hidden, a.qkv_bias);
      s.linear("cross_v_proj"_node, source, v_width, s.hidden, a.qkv_bias);
    } else {
      s.linear("cross_kv_proj"_node, source, k_width + v_width, s.hidden, a.qkv_bias);
    }
  }
  cross_core(s, {q_heads, kv_heads, a.qk_dim, a.v_dim, s.q_len, s.cross_len, false, 0, false, s.decode, 0, s.kept()});
  s.quantize("cross_o_quantize"_node, s.tokens, q_heads * a.v_dim, s.types.linear);
  s.linear("cross_o_proj"_node, s.tokens, s.hidden, q_heads * a.v_dim, a.out_bias);
  s.all_reduce("cross_all_reduce"_node, "cross_reduce_scatter"_node, s.tokens);
}

}  // namespace
}  // namespace plumbline::lowering

namespace plumbline {

void AttentionSpec::lower(lowering::Step& step) const {
  lower_inputs(step);
  lower_output(step);
}

void AttentionSpec::lower_inputs(lowering::Step& step) const { lowering::attend(step, *this); }

void AttentionSpec::lower_output(lowering::Step& step) const {
  lowering::out_projection(step, *this, step.share(q_heads));
}

void CrossAttentionSpec::lower(lowering::Step& step) const { lowering::cross_attention(step, attention); }

}  // namespace plumbline
