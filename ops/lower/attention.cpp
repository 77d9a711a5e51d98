// Softmax attention of one layer: projections, rotation, cache append and the attention itself at each fusion level.
//
// * none: q, k and v are GEMMs of their own. QK^T, scale, mask, softmax (dropout) and PV are kernels of their own, over
//   all pairs, masked or not. A copy writes the cache (a static cache; torch.cat would copy all of it), and grouped KV
//   heads are expanded by a copy first (`repeat_kv` of Hugging Face's eager code).
// * typical: one QKV GEMM and flash attention. One `rope` kernel rotates Q and K and writes K and V to the cache, in
//   prefill and in decode (vLLM: rotary_embedding, reshape_and_cache; one launch here as SGLang and FlashInfer fuse
//   them), so AttentionPrefill.append is 0. Its V heads are counted as rotated heads: the same bytes.
// * max: rotation and append happen inside the attention kernel (TensorRT-LLM's XQA and FMHA: append = 1), or in the
//   QKV epilogue when there is no cache. So does the QK norm (TensorRT-LLM's fusedQKNormRope).
#include <algorithm>

#include "ops/lower/step.hpp"

namespace plumbline::lowering {
namespace {

void eager_core(Step& s, const Core& c) {
  const std::int64_t heads = s.batch * c.q_heads, rows = heads * c.q_len;
  if (c.kv_heads != c.q_heads) {
    s.copy("repeat_k"_node, heads * c.kv_len, c.qk_dim);
    s.copy("repeat_v"_node, heads * c.kv_len, c.v_dim);
  }
  s.gemm("attn_scores"_node.as(NodeRole::scores), c.q_len, c.kv_len, c.qk_dim, s.types.plain, false, heads);
  s.row("attn_scale"_node, RowwiseKind::scale, rows, c.kv_len);
  if (c.q_len > 1 && (c.causal || s.padded)) s.row("attn_mask"_node, RowwiseKind::mask, rows, c.kv_len);
  s.row("attn_softmax"_node, RowwiseKind::softmax, rows, c.kv_len);
  if (s.dropout) s.row("attn_dropout"_node, RowwiseKind::dropout, rows, c.kv_len);
  s.gemm("attn_context"_node.as(NodeRole::context), c.q_len, c.v_dim, c.kv_len, s.types.plain, false, heads);
}

void flash(Step& s, NodeTag name, const Core& c, std::int64_t sequences, std::int64_t q_len, std::int64_t kv_len) {
  const std::int64_t window = c.window < kv_len && !c.chunked ? c.window : 0;
  s.add(name, AttentionPrefill{sequences, c.q_heads, c.kv_heads, c.qk_dim, c.v_dim, q_len, kv_len, c.causal, window,
                               c.append, s.types.base, c.kv});
}

/// Fixed chunks (Llama-4): every full chunk is a sequence of its own, the rest a shorter one.
void chunked_prefill(Step& s, const Core& c) {
  const std::int64_t full = c.q_len / c.window, rest = c.q_len % c.window;
  flash(s, "attention"_node, c, s.batch * full, c.window, c.window);
  if (rest > 0) flash(s, "attention_rest"_node, c, s.batch, rest, rest);
}

/// Keys one decode query sees: a sliding window holds at most its width, a chunk what has been filled of it.
std::int64_t decode_keys(const Core& c) {
  if (c.window == 0) return c.kv_len;
  return c.chunked ? (c.kv_len - 1) % c.window + 1 : std::min(c.kv_len, c.window);
}

void qkv_projection(Step& s, const AttentionSpec& a, std::int64_t q_heads, std::int64_t kv_heads) {
  const std::int64_t q_width = q_heads * a.qk_dim * (a.output_gate ? 2 : 1);
  const std::int64_t k_width = kv_heads * a.qk_dim, v_width = kv_heads * a.v_dim;
  s.quantize("qkv_quantize"_node, s.tokens, s.hidden, s.types.linear);
  if (!s.none()) {
    s.linear("qkv_proj"_node, s.tokens, q_width + k_width + v_width, s.hidden, a.qkv_bias);
    return;
  }
  s.linear("q_proj"_node, s.tokens, q_width, s.hidden, a.qkv_bias);
  s.linear("k_proj"_node, s.tokens, k_width, s.hidden, a.qkv_bias);
  s.linear("v_proj"_node, s.tokens, v_width, s.hidden, a.qkv_bias);
}

/// Per head (1) both fit one launch over all heads; over the whole width (2) Q and K rows differ in length.
void qk_norm(Step& s, const AttentionSpec& a, std::int64_t q_heads, std::int64_t kv_heads) {
  if (a.qk_norm == 0) return;
  const bool per_head = a.qk_norm == 1;
  if (per_head && s.max()) return;
  if (per_head && !s.none()) {
    s.norm("qk_norm"_node, NormKind::rms, s.tokens * (q_heads + kv_heads), a.qk_dim);
    return;
  }
  const std::int64_t split_q = per_head ? q_heads : 1, split_k = per_head ? kv_heads : 1;
  s.norm("q_norm"_node, NormKind::rms, s.tokens * split_q, q_heads * a.qk_dim / split_q);
  s.norm("k_norm"_node, NormKind::rms, s.tokens * split_k, kv_heads * a.qk_dim / split_k);
}

void rope_and_append(Step& s, const AttentionSpec& a, std::int64_t q_heads, std::int64_t kv_heads) {
  const DType type = s.types.base;
  if (s.max()) return;
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
  s.all_reduce("attn_all_reduce"_node, s.tokens);
}

}  // namespace

void attention_core(Step& s, const Core& c) {
  if (s.none()) {
    Core seen = c;
    if (c.decode) seen.kv_len = decode_keys(c);
    eager_core(s, seen);
  } else if (c.decode) {
    // A chunk is a shorter context; a sliding window is the kernel's own business.
    const bool slides = c.window > 0 && !c.chunked && c.window < c.kv_len;
    s.add("attention"_node,
          AttentionDecode{s.batch, c.q_heads, c.kv_heads, c.qk_dim, c.v_dim, c.chunked ? decode_keys(c) : c.kv_len,
                          s.workload.page, slides ? c.window : 0, s.types.base, c.kv});
  } else if (c.chunked && c.window > 0 && c.window < c.q_len) {
    chunked_prefill(s, c);
  } else {
    flash(s, "attention"_node, c, s.batch, c.q_len, c.kv_len);
  }
}

void self_attention(Step& s, const AttentionSpec& a) {
  if (a.shared_kv) return compressed_attention(s, a);
  if (a.kind == AttentionSpec::Kind::mla) return mla_attention(s, a);
  const std::int64_t q_heads = s.share(a.q_heads), kv_heads = s.share(a.kv_heads);
  qkv_projection(s, a, q_heads, kv_heads);
  qk_norm(s, a, q_heads, kv_heads);
  rope_and_append(s, a, q_heads, kv_heads);
  attention_core(s, {q_heads, kv_heads, a.qk_dim, a.v_dim, s.q_len, s.kv_len, a.causal, a.window, a.chunked, s.decode,
                     s.max() && s.cache ? 1 : 0, s.kept()});
  if (a.output_gate) output_gate(s, q_heads * a.v_dim);
  out_projection(s, a, q_heads);
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
  Core core{q_heads, kv_heads, a.qk_dim, a.v_dim, s.q_len, s.cross_len, false, 0, false, s.decode, 0, s.kept()};
  if (s.none()) {
    eager_core(s, core);
  } else if (s.decode) {
    s.add("cross_attention"_node,
          AttentionDecode{s.batch, q_heads, kv_heads, a.qk_dim, a.v_dim, s.cross_len, 0, 0, s.types.base, s.types.kv});
  } else {
    flash(s, "cross_attention"_node, core, s.batch, s.q_len, s.cross_len);
  }
  s.quantize("cross_o_quantize"_node, s.tokens, q_heads * a.v_dim, s.types.linear);
  s.linear("cross_o_proj"_node, s.tokens, s.hidden, q_heads * a.v_dim, a.out_bias);
  s.all_reduce("cross_all_reduce"_node, s.tokens);
}

}  // namespace plumbline::lowering
