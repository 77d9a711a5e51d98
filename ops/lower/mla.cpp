// Multi-head latent attention (DeepSeek-V2/V3), with DSA's indexer (V3.2), and the compressed streams of V4.
//
// Prefill and training use the expanded form: keys and values of all heads come from the latent by kv_b, attention has
// QK width nope + rope and V width v. Decode uses the absorbed form: kv_b's key half is multiplied into the query
// (`q_absorb`, one small GEMM a head), attention reads the latents themselves, kv_b's value half (`v_up`) follows.
// Source: DeepSeek-V2 paper (arXiv 2405.04434) section 2.1 and appendix C; reference notes on configs, section 3.
// The absorbed halves stay in 16 bits whatever the weights are stored in (vLLM dequantizes them at load).
#include <algorithm>

#include "ops/lower/step.hpp"

namespace plumbline::lowering {
namespace {

struct Mla {
  std::int64_t heads, q_rank, kv_rank, rope, nope, v;
};

/// Latents of query and key/value: one GEMM since both read the hidden state (vLLM: fused_qkv_a_proj); apart in eager
/// code and where the query has no latent.
void latent_projections(Step& s, const Mla& m) {
  const std::int64_t kv_width = m.kv_rank + m.rope, q_width = m.heads * (m.nope + m.rope);
  s.quantize("qkv_a_quantize"_node, s.tokens, s.hidden, s.types.linear);
  if (m.q_rank == 0) {
    s.linear("q_proj"_node, s.tokens, q_width, s.hidden);
    s.linear("kv_a_proj"_node, s.tokens, kv_width, s.hidden);
    s.norm("kv_a_norm"_node, NormKind::rms, s.tokens, m.kv_rank);
    return;
  }
  if (s.none()) {
    s.linear("q_a_proj"_node, s.tokens, m.q_rank, s.hidden);
    s.linear("kv_a_proj"_node, s.tokens, kv_width, s.hidden);
  } else {
    s.linear("qkv_a_proj"_node, s.tokens, m.q_rank + kv_width, s.hidden);
  }
  if (s.max()) {  // both latents in one launch (SGLang, TensorRT-LLM)
    s.norm("qkv_a_norm"_node, NormKind::rms, s.tokens, m.q_rank + m.kv_rank);
  } else {
    s.norm("q_a_norm"_node, NormKind::rms, s.tokens, m.q_rank);
    s.norm("kv_a_norm"_node, NormKind::rms, s.tokens, m.kv_rank);
  }
  s.quantize("q_b_quantize"_node, s.tokens, m.q_rank, s.types.linear);
  s.linear("q_b_proj"_node, s.tokens, q_width, m.q_rank);
}

void rope_and_append(Step& s, const Mla& m) {
  if (s.max()) return;
  s.add("rope"_node, Rope{s.tokens, m.heads + 1, m.rope, s.types.base});  // the rotary key is one for all heads
  if (s.cache) s.copy("kv_append"_node, s.tokens, m.kv_rank + m.rope);
}

/// Keys a query may attend to after the indexer's choice (0: all of them).
std::int64_t selected(const AttentionSpec& a, std::int64_t keys) {
  return a.index_topk > 0 && a.index_topk < keys ? a.index_topk : 0;
}

/// DSA: index_heads light queries score every past token against one shared key, ReLU, weighted sum over heads, the
/// top k stay (DeepSeek-V3.2 technical report, equation 1). Scores are in the linear layers' format (fp8 as published).
void indexer(Step& s, const AttentionSpec& a, std::int64_t query_in, std::int64_t keys) {
  const std::int64_t heads = a.index_heads, dim = a.index_dim;
  s.linear("index_q_proj"_node, s.tokens, heads * dim, query_in);
  s.linear("index_k_proj"_node, s.tokens, dim, s.hidden);
  s.norm("index_k_norm"_node, NormKind::layer, s.tokens, dim);
  s.gemm("index_weights_proj"_node, s.tokens, heads, s.hidden, s.types.plain);
  if (!s.max()) s.add("index_rope"_node, Rope{s.tokens, heads + 1, a.rope_dim, s.types.base});
  if (s.cache && !s.max()) s.copy("index_append"_node, s.tokens, dim);
  const DType score = s.types.linear.input;
  if (s.decode) {
    // A GEMM of all heads against the cached keys. The kernel sums the heads before it writes, so the result type is
    // the narrowest there is: head scores must not weigh as much as the keys.
    s.gemm("index_scores"_node.as(NodeRole::scores), heads, keys, dim, {score, score, DType::fp4, s.types.linear.math},
           false, s.batch);
  } else {
    // Causal: (S + 1) / 2 keys a query on average. Summing over heads makes heads x dim the inner width, which leaves
    // FLOPs and the result exact.
    const std::int64_t seen = std::max<std::int64_t>(1, ceil_div(keys, 2));
    s.gemm("index_scores"_node.as(NodeRole::scores), s.q_len, seen, heads * dim,
           {score, score, s.types.base, s.types.linear.math}, false, s.batch);
  }
  s.add("index_topk"_node, TopK{s.tokens, keys, std::min(a.index_topk, keys), DType::fp32});
}

void expanded(Step& s, const AttentionSpec& a, const Mla& m) {
  s.quantize("kv_b_quantize"_node, s.tokens, m.kv_rank, s.types.linear);
  s.linear("kv_b_proj"_node, s.tokens, m.heads * (m.nope + m.v), m.kv_rank);
  rope_and_append(s, m);
  if (!s.max()) s.copy("k_concat"_node, s.tokens, m.heads * (m.nope + m.rope));  // [k_nope, k_rope for every head]
  attention_core(s, {m.heads, m.heads, m.nope + m.rope, m.v, s.q_len, s.kv_len, a.causal, selected(a, s.kv_len), false,
                     false, 0, s.types.base});
}

void absorbed(Step& s, const AttentionSpec& a, const Mla& m) {
  const std::int64_t chosen = selected(a, s.kv_len), keys = chosen > 0 ? chosen : s.kv_len;
  s.gemm("q_absorb"_node, s.tokens, m.kv_rank, m.nope, s.types.plain, false, m.heads);
  rope_and_append(s, m);
  if (s.none()) {
    const std::int64_t rows = s.batch * m.heads;
    s.gemm("attn_scores"_node.as(NodeRole::scores), m.heads, keys, m.kv_rank + m.rope, s.types.plain, false, s.batch);
    s.row("attn_scale"_node, RowwiseKind::scale, rows, keys);
    s.row("attn_softmax"_node, RowwiseKind::softmax, rows, keys);
    s.gemm("attn_context"_node.as(NodeRole::context), m.heads, m.kv_rank, keys, s.types.plain, false, s.batch);
  } else {
    s.add("attention"_node, MlaDecode{s.batch, m.heads, keys, m.kv_rank, m.rope, s.types.base, s.types.kv});
  }
  s.gemm("v_up"_node, s.tokens, m.v, m.kv_rank, s.types.plain, false, m.heads);
}

}  // namespace

void mla_attention(Step& s, const AttentionSpec& a) {
  const std::int64_t nope = a.nope_dim > 0 ? a.nope_dim : a.qk_dim - a.rope_dim;
  const Mla m{s.share(a.q_heads), a.q_lora_rank, a.kv_lora_rank, a.rope_dim, nope, a.v_dim};
  latent_projections(s, m);
  if (a.index_heads > 0) indexer(s, a, m.q_rank > 0 ? m.q_rank : s.hidden, s.kv_len);
  if (s.decode) absorbed(s, a, m);
  else expanded(s, a, m);
  s.quantize("o_quantize"_node, s.tokens, m.heads * m.v, s.types.linear);
  s.linear("o_proj"_node, s.tokens, s.hidden, m.heads * m.v, a.out_bias);
  s.all_reduce("attn_all_reduce"_node, s.tokens);
}

namespace {

/// V4: one stream serves as key and value. A window of it is kept whole; the rest is pooled, `compress_ratio` tokens to
/// one by learned weights (two projections: values and gates), and with an indexer only the top k of the pooled ones.
/// Our reading of the published config: windows and pooled stream are attended in one softmax.
std::int64_t pooled_keys(const AttentionSpec& a, std::int64_t keys) {
  if (a.compress_ratio <= 0) return 0;
  const std::int64_t pooled = keys / a.compress_ratio;
  return a.index_topk > 0 ? std::min(pooled, a.index_topk) : pooled;
}

void compressor(Step& s, const AttentionSpec& a) {
  if (a.compress_ratio <= 0) return;
  s.linear("compress_proj"_node, s.tokens, 2 * a.qk_dim, s.hidden);
  // Pooling reads values and gates of all tokens and writes one row in `ratio`: at least the read is there.
  s.row("compress_pool"_node, RowwiseKind::sum_rows, s.tokens, 2 * a.qk_dim);
}

void compressed_core(Step& s, const AttentionSpec& a, std::int64_t heads) {
  const std::int64_t dim = a.qk_dim, window = a.window > 0 ? std::min(a.window, s.kv_len) : s.kv_len;
  if (s.decode) {
    const std::int64_t keys = window + pooled_keys(a, s.kv_len);
    // Values over the whole width, no part that only scores: an MLA of latent = head width and no rotary rest.
    if (!s.none()) {
      s.add("attention"_node, MlaDecode{s.batch, heads, keys, dim, 0, s.types.base, s.types.kv});
      return;
    }
    s.gemm("attn_scores"_node.as(NodeRole::scores), heads, keys, dim, s.types.plain, false, s.batch);
    s.row("attn_scale"_node, RowwiseKind::scale, s.batch * heads, keys);
    s.row("attn_softmax"_node, RowwiseKind::softmax, s.batch * heads, keys);
    s.gemm("attn_context"_node.as(NodeRole::context), heads, dim, keys, s.types.plain, false, s.batch);
    return;
  }
  attention_core(s, {heads, 1, dim, dim, s.q_len, s.kv_len, true, window, false, false, 0, s.kept()});
  // A query sees the pooled tokens before it: half of them on average, at most top k.
  const std::int64_t pooled = pooled_keys(a, ceil_div(s.kv_len, 2));
  if (pooled == 0) return;
  if (s.none()) attention_core(s, {heads, 1, dim, dim, s.q_len, pooled, false, 0, false, false, 0, s.kept()});
  else
    s.add("attention_pooled"_node,
          AttentionPrefill{s.batch, heads, 1, dim, dim, s.q_len, pooled, false, 0, 0, s.types.base, s.kept()});
}

}  // namespace

void compressed_attention(Step& s, const AttentionSpec& a) {
  const std::int64_t heads = s.share(a.q_heads), dim = a.qk_dim;
  s.quantize("qkv_a_quantize"_node, s.tokens, s.hidden, s.types.linear);
  const std::int64_t q_first = a.q_lora_rank > 0 ? a.q_lora_rank : heads * dim;
  if (s.none()) {
    s.linear("q_a_proj"_node, s.tokens, q_first, s.hidden);
    s.linear("kv_proj"_node, s.tokens, dim, s.hidden);
  } else {
    s.linear("qkv_a_proj"_node, s.tokens, q_first + dim, s.hidden);
  }
  if (a.q_lora_rank > 0) {
    s.norm("q_a_norm"_node, NormKind::rms, s.tokens, a.q_lora_rank);
    s.quantize("q_b_quantize"_node, s.tokens, a.q_lora_rank, s.types.linear);
    s.linear("q_b_proj"_node, s.tokens, heads * dim, a.q_lora_rank);
  }
  compressor(s, a);
  if (a.index_heads > 0 && a.compress_ratio > 0) {
    indexer(s, a, a.q_lora_rank > 0 ? a.q_lora_rank : s.hidden, std::max<std::int64_t>(1, s.kv_len / a.compress_ratio));
  }
  if (!s.max()) {
    s.add("rope"_node, Rope{s.tokens, heads + 1, a.rope_dim > 0 ? a.rope_dim : dim, s.types.base});
    if (s.cache) s.copy("kv_append"_node, s.tokens, dim);
  }
  compressed_core(s, a, heads);
  if (a.out_groups > 0) {
    const std::int64_t groups = s.share(a.out_groups), width = groups * a.out_lora_rank;
    s.gemm("o_a_proj"_node, s.tokens, a.out_lora_rank, heads * dim / groups, s.types.plain, false, groups);
    s.quantize("o_quantize"_node, s.tokens, width, s.types.linear);
    s.linear("o_b_proj"_node, s.tokens, s.hidden, width);
  } else {
    s.quantize("o_quantize"_node, s.tokens, heads * dim, s.types.linear);
    s.linear("o_proj"_node, s.tokens, s.hidden, heads * dim, a.out_bias);
  }
  s.all_reduce("attn_all_reduce"_node, s.tokens);
}

}  // namespace plumbline::lowering
