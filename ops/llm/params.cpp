#include "ops/llm/params.hpp"

#include <algorithm>

namespace plumbline {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

/// DeepSeek-V2 paper (arXiv:2405.04434) section 2.1: Q through a latent (or direct), K and V from a latent beside one
/// shared RoPE key; both latents are normed. Biases as DeepseekV3Attention has them: on the down projections and `o`.
ParamCount mla_params(const AttentionSpec& a, double h) {
  const double q = number(a.q_heads), rq = number(a.q_lora_rank), rkv = number(a.kv_lora_rank);
  const double rope = number(a.rope_dim), nope = number(a.nope_dim), v = number(a.v_dim);
  ParamCount count;
  count.matrices = rq > 0 ? h * rq + rq * q * (nope + rope) : h * q * (nope + rope);
  count.matrices += h * (rkv + rope) + rkv * q * (nope + v) + q * v * h;
  count.vectors = rq + rkv;
  if (a.qkv_bias) count.vectors += rq + rkv + rope;
  return count;
}

/// DeepSeek-V4: low-rank queries, one K = V stream of a single head, output in groups of low rank (config keys
/// o_groups, o_lora_rank). The compressors and indexer are not in this count; the loader says so.
ParamCount shared_kv_params(const AttentionSpec& a, double h) {
  const double qd = number(a.q_heads) * number(a.qk_dim), rq = number(a.q_lora_rank);
  double count = rq > 0 ? h * rq + rq * qd : h * qd;
  count += h * number(a.kv_heads) * number(a.qk_dim);
  if (a.out_groups > 0)
    return {count + qd * number(a.out_lora_rank) + number(a.out_groups) * number(a.out_lora_rank) * h, 0};
  return {count + qd * h, 0};
}

ParamCount standard_params(const AttentionSpec& a, double h, double kv_h) {
  const double q = number(a.q_heads), kv = number(a.kv_heads), d = number(a.qk_dim), v = number(a.v_dim);
  const double gate = a.output_gate ? 2.0 : 1.0;
  ParamCount count{gate * h * q * d + kv_h * kv * (d + v) + q * v * h, 0};
  if (a.qkv_bias) count.vectors += gate * q * d + kv * v + (a.key_bias ? kv * d : 0.0);
  if (a.qk_norm == 1) count.vectors += 2.0 * d;
  if (a.qk_norm == 2) count.vectors += (q + kv) * d;
  return count;
}

/// DSA indexer (DeepSeek-V3.2-Exp report): queries from the Q latent, one key a token with LayerNorm, head weights.
ParamCount indexer_params(const AttentionSpec& a, double h) {
  const double heads = number(a.index_heads), d = number(a.index_dim);
  const double from = a.q_lora_rank > 0 ? number(a.q_lora_rank) : h;
  return {from * heads * d + h * d + h * heads, 2.0 * d};
}

/// Mamba (arXiv:2312.00752, MambaMixer): in, depthwise conv + bias, x and dt projections, A, D, out.
ParamCount mamba1_params(const RecurrentSpec& r, double h) {
  const double i = number(r.inner), s = number(r.state), c = number(r.conv), rank = number(r.dt_rank);
  const double norms = r.inner_norms ? rank + 2.0 * s : 0.0;
  return {h * 2.0 * i + i * (rank + 2.0 * s) + rank * i + i * h, i * (c + 1.0) + i + i * s + i + norms};
}

/// Mamba-2 (arXiv:2405.21060, Mamba2Mixer): one in projection for z, x, B, C, dt; conv over x, B, C; A, D, dt bias;
/// gated norm; out.
ParamCount mamba2_params(const RecurrentSpec& r, double h) {
  const double i = number(r.inner), gs = number(r.groups) * number(r.state), heads = number(r.heads);
  return {h * (2.0 * i + 2.0 * gs + heads) + i * h, (i + 2.0 * gs) * (number(r.conv) + 1.0) + 3.0 * heads + i};
}

/// Gated DeltaNet as Qwen3NextGatedDeltaNet has it: q, k, v, z; beta and alpha; conv without bias; A and dt bias; norm.
ParamCount delta_net_params(const RecurrentSpec& r, double h) {
  const double k = number(r.key_heads) * number(r.key_dim), v = number(r.inner), heads = number(r.heads);
  return {h * (2.0 * k + 2.0 * v) + 2.0 * h * heads + v * h,
          (2.0 * k + v) * number(r.conv) + 2.0 * heads + number(r.head_dim)};
}

}  // namespace

ParamCount attention_params(const AttentionSpec& a, std::int64_t hidden, std::int64_t kv_hidden) {
  const double h = number(hidden), kv_h = kv_hidden > 0 ? number(kv_hidden) : h;
  ParamCount count;
  if (a.kind == AttentionSpec::Kind::mla) {
    count = mla_params(a, h);
    if (a.index_topk > 0) count += indexer_params(a, h);
  } else {
    count = a.shared_kv ? shared_kv_params(a, h) : standard_params(a, h, kv_h);
  }
  if (a.out_bias) count.vectors += h;
  if (a.sinks) count.vectors += number(a.q_heads);
  return count;
}

ParamCount recurrent_params(const RecurrentSpec& r, std::int64_t hidden) {
  const double h = number(hidden);
  switch (r.kind) {
    case RecurrentKind::mamba1: return mamba1_params(r, h);
    case RecurrentKind::mamba2: return mamba2_params(r, h);
    case RecurrentKind::gated_delta_net: return delta_net_params(r, h);
  }
  return {};
}

ParamCount dense_ffn_params(const FfnSpec& ffn, std::int64_t hidden, std::int64_t width) {
  const double h = number(hidden), f = number(width), in = ffn.gated ? 2.0 : 1.0;
  return {(in + 1.0) * h * f, ffn.bias ? in * f + h : 0.0};
}

ParamCount expert_params(const FfnSpec& ffn, std::int64_t hidden) {
  return dense_ffn_params(ffn, ffn.latent > 0 ? ffn.latent : hidden, ffn.expert_width);
}

ParamCount ffn_params(const FfnSpec& ffn, std::int64_t hidden) {
  const double h = number(hidden), experts = number(ffn.experts);
  ParamCount count;
  if (ffn.width > 0) count += dense_ffn_params(ffn, hidden, ffn.width);
  if (!ffn.is_moe()) return count;
  const ParamCount one = expert_params(ffn, hidden);
  count += {experts * one.matrices + h * experts, experts * one.vectors};
  if (ffn.router_bias) count.vectors += experts;
  if (ffn.shared_width > 0) count += dense_ffn_params(ffn, hidden, ffn.shared_width);
  if (ffn.shared_gate) count.matrices += h;
  if (ffn.latent > 0) count.matrices += 2.0 * h * number(ffn.latent);
  return count;
}

ParamCount layer_params(const LayerSpec& layer, std::int64_t hidden) {
  const double h = number(hidden);
  // Norms over the hidden width, and the modulation with its bias.
  ParamCount count{
      number(layer.modulation_width) * h,
      static_cast<double>(layer.norms) * static_cast<double>(layer.norm_vectors) * h + number(layer.modulation_width)};
  if (layer.attention) count += attention_params(*layer.attention, hidden);
  if (layer.cross) count += attention_params(*layer.cross, hidden);
  if (layer.recurrent) count += recurrent_params(*layer.recurrent, hidden);
  if (layer.ffn) count += ffn_params(*layer.ffn, hidden);
  if (!layer.double_stream || !layer.attention) return count;
  // The second stream: its own projections and FFN; where it ends, Q, K and V alone.
  const AttentionSpec& a = *layer.attention;
  count += attention_params(a, hidden);
  if (layer.second_stream_ends) {
    count.matrices -= number(a.q_heads) * number(a.v_dim) * h;
    count.vectors -= a.out_bias ? h : 0.0;
  } else if (layer.ffn) {
    count += ffn_params(*layer.ffn, hidden);
  }
  return count;
}

void count_layer(LayerSpec& layer, std::int64_t hidden) {
  layer.params = layer.active_params = layer_params(layer, hidden).total();
  layer.expert_params = 0;
  if (!layer.ffn || !layer.ffn->is_moe()) return;
  const double one = expert_params(*layer.ffn, hidden).total();
  const std::int64_t unused = layer.ffn->experts - std::min(layer.ffn->topk, layer.ffn->experts);
  layer.expert_params = number(layer.ffn->experts) * one;
  layer.active_params -= number(unused) * one;
}

namespace {

template <class Value>
double over_layers(const StackSpec& stack, Value value) {
  double sum = 0;
  if (stack.shared_weights) {
    for (const LayerSpec& kind : stack.kinds) sum += value(kind);
    return sum;
  }
  for (const int kind : stack.order) sum += value(stack.kinds[static_cast<std::size_t>(kind)]);
  return sum;
}

}  // namespace

double stack_layer_params(const StackSpec& stack) {
  return over_layers(stack, [](const LayerSpec& layer) { return layer.params; });
}

double stack_active_layer_params(const StackSpec& stack) {
  return over_layers(stack, [](const LayerSpec& layer) { return layer.active_params; });
}

}  // namespace plumbline
