// Multi-head latent attention (DeepSeek-V2/V3), with DSA's indexer (V3.2).
//
// Prefill and training use the expanded form: keys and values of all heads come from the latent by kv_b, attention has
// QK width nope + rope and V width v. Decode uses the absorbed form: kv_b's key half is multiplied into the query
// (`q_absorb`, one small GEMM a head), attention reads the latents themselves, kv_b's value half (`v_up`) follows.
// Source: DeepSeek-V2 paper (arXiv 2405.04434) section 2.1 and appendix C; docs/sources.md: models.
// The absorbed halves stay in 16 bits whatever the weights are stored in (vLLM dequantizes them at load).
#include "ops/mixer/attention_core.hpp"
#include "ops/mixer/mla.hpp"

namespace plumbline::lowering {
namespace {

struct Mla {
  std::int64_t heads, q_rank, kv_rank, rope, nope, v;
  bool latent_gate = false;
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
  if (m.latent_gate) s.linear("q_gate_proj"_node, s.tokens, q_width + m.heads * m.v, 2 * m.q_rank);
  else s.linear("q_b_proj"_node, s.tokens, q_width, m.q_rank);
}

void rope_and_append(Step& s, const Mla& m) {
  if (s.attention_rotates()) return;
  s.add("rope"_node, Rope{s.tokens, m.heads + 1, m.rope, s.types.base});  // the rotary key is one for all heads
  if (s.cache) s.copy("kv_append"_node, s.tokens, m.kv_rank + m.rope);
}

/// Keys a query may attend to after the indexer's choice (0: all of them).
std::int64_t selected(const MlaSpec& a, std::int64_t keys) {
  return a.index.topk > 0 && a.index.topk < keys ? a.index.topk : 0;
}

void expanded(Step& s, const MlaSpec& a, const Mla& m) {
  // Keys and values of cached tokens are not kept: they are made again from the latents (vLLM's chunked prefill too).
  const std::int64_t kv_tokens = s.batch * s.all_keys;
  gather_context(s, m.kv_rank + m.rope, s.kept());
  s.quantize("kv_b_quantize"_node, kv_tokens, m.kv_rank, s.types.linear);
  s.linear("kv_b_proj"_node, kv_tokens, m.heads * (m.nope + m.v), m.kv_rank);
  rope_and_append(s, m);
  if (!s.attention_rotates())
    s.copy("k_concat"_node, kv_tokens, m.heads * (m.nope + m.rope));  // [k_nope, k_rope for every head]
  attention_core(s, {m.heads, m.heads, m.nope + m.rope, m.v, s.q_len, s.kv_len, a.causal, selected(a, s.kv_len), false,
                     false, s.attention_rotates() && !s.max() ? 1 : 0, s.types.base});
}

void absorbed(Step& s, const MlaSpec& a, const Mla& m) {
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
  merge_context(s, m.heads, m.kv_rank);
  s.gemm("v_up"_node, s.tokens, m.v, m.kv_rank, s.types.plain, false, m.heads);
}

void mla_attention(Step& s, const MlaSpec& a) {
  const Mla m{s.share(a.heads), a.q_lora_rank, a.kv_lora_rank, a.rope_dim, a.nope_dim, a.v_dim, a.latent_gate};
  latent_projections(s, m);
  if (a.index.heads > 0) indexer(s, a.index, m.rope, m.q_rank > 0 ? m.q_rank : s.hidden, s.kv_len);
  if (s.decode) absorbed(s, a, m);
  else expanded(s, a, m);
  if (a.gate) s.linear("gate_proj"_node, s.tokens, m.heads * m.v, s.hidden);
  if ((a.gate || a.latent_gate) && !s.max()) s.row("attn_gate"_node, RowwiseKind::swiglu, s.tokens, m.heads * m.v);
  s.quantize("o_quantize"_node, s.tokens, m.heads * m.v, s.types.linear);
  s.linear("o_proj"_node, s.tokens, s.hidden, m.heads * m.v, a.out_bias);
  s.all_reduce("attn_all_reduce"_node, "attn_reduce_scatter"_node, s.tokens);
}

}  // namespace
}  // namespace plumbline::lowering

namespace plumbline {

void MlaSpec::lower(lowering::Step& step) const { lowering::mla_attention(step, *this); }

}  // namespace plumbline
