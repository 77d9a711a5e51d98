#include "ops/params.hpp"

#include <algorithm>

namespace plumbline {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

/// DeepSeek-V2 paper (arXiv:2405.04434) section 2.1: Q through a latent (or direct), K and V from a latent beside one
/// shared RoPE key; both latents are normed. Biases as DeepseekV3Attention has them: on the down projections and `o`.
double mla_params(const AttentionSpec& a, double h) {
  const double q = number(a.q_heads), rq = number(a.q_lora_rank), rkv = number(a.kv_lora_rank);
  const double rope = number(a.rope_dim), nope = number(a.nope_dim), v = number(a.v_dim);
  double count = rq > 0 ? h * rq + rq + rq * q * (nope + rope) : h * q * (nope + rope);
  count += h * (rkv + rope) + rkv + rkv * q * (nope + v) + q * v * h;
  if (a.qkv_bias) count += rq + rkv + rope;
  return count;
}

/// DeepSeek-V4: low-rank queries, one K = V stream of a single head, output in groups of low rank (config keys
/// o_groups, o_lora_rank). The compressors and indexer are not in this count; the loader says so.
double shared_kv_params(const AttentionSpec& a, double h) {
  const double qd = number(a.q_heads) * number(a.qk_dim), rq = number(a.q_lora_rank);
  double count = rq > 0 ? h * rq + rq * qd : h * qd;
  count += h * number(a.kv_heads) * number(a.qk_dim);
  if (a.out_groups > 0)
    return count + qd * number(a.out_lora_rank) + number(a.out_groups) * number(a.out_lora_rank) * h;
  return count + qd * h;
}

double standard_params(const AttentionSpec& a, double h, double kv_h) {
  const double q = number(a.q_heads), kv = number(a.kv_heads), d = number(a.qk_dim), v = number(a.v_dim);
  double count = (a.output_gate ? 2.0 : 1.0) * h * q * d + kv_h * kv * (d + v) + q * v * h;
  if (a.qkv_bias) count += (a.output_gate ? 2.0 : 1.0) * q * d + kv * v + (a.key_bias ? kv * d : 0.0);
  if (a.qk_norm == 1) count += 2.0 * d;
  if (a.qk_norm == 2) count += (q + kv) * d;
  return count;
}

/// DSA indexer (DeepSeek-V3.2-Exp report): queries from the Q latent, one key a token with LayerNorm, head weights.
double indexer_params(const AttentionSpec& a, double h) {
  const double heads = number(a.index_heads), d = number(a.index_dim);
  const double from = a.q_lora_rank > 0 ? number(a.q_lora_rank) : h;
  return from * heads * d + h * d + 2.0 * d + h * heads;
}

/// Mamba (arXiv:2312.00752, MambaMixer): in, depthwise conv + bias, x and dt projections, A, D, out.
double mamba1_params(const RecurrentSpec& r, double h) {
  const double i = number(r.inner), s = number(r.state), c = number(r.conv), rank = number(r.dt_rank);
  const double mixer = h * 2.0 * i + i * (c + 1.0) + i * (rank + 2.0 * s) + rank * i + i + i * s + i + i * h;
  return mixer + (r.inner_norms ? rank + 2.0 * s : 0.0);
}

/// Mamba-2 (arXiv:2405.21060, Mamba2Mixer): one in projection for z, x, B, C, dt; conv over x, B, C; A, D, dt bias;
/// gated norm; out.
double mamba2_params(const RecurrentSpec& r, double h) {
  const double i = number(r.inner), gs = number(r.groups) * number(r.state), heads = number(r.heads);
  return h * (2.0 * i + 2.0 * gs + heads) + (i + 2.0 * gs) * (number(r.conv) + 1.0) + 3.0 * heads + i + i * h;
}

/// Gated DeltaNet as Qwen3NextGatedDeltaNet has it: q, k, v, z; beta and alpha; conv without bias; A and dt bias; norm.
double delta_net_params(const RecurrentSpec& r, double h) {
  const double k = number(r.key_heads) * number(r.key_dim), v = number(r.inner), heads = number(r.heads);
  return h * (2.0 * k + 2.0 * v) + 2.0 * h * heads + (2.0 * k + v) * number(r.conv) + 2.0 * heads + number(r.head_dim) +
         v * h;
}

}  // namespace

double attention_params(const AttentionSpec& a, std::int64_t hidden, std::int64_t kv_hidden) {
  const double h = number(hidden), kv_h = kv_hidden > 0 ? number(kv_hidden) : h;
  double count = 0;
  if (a.kind == AttentionSpec::Kind::mla) {
    count = mla_params(a, h);
    if (a.index_topk > 0) count += indexer_params(a, h);
  } else {
    count = a.shared_kv ? shared_kv_params(a, h) : standard_params(a, h, kv_h);
  }
  if (a.out_bias) count += h;
  if (a.sinks) count += number(a.q_heads);
  return count;
}

double recurrent_params(const RecurrentSpec& r, std::int64_t hidden) {
  const double h = number(hidden);
  switch (r.kind) {
    case RecurrentKind::mamba1: return mamba1_params(r, h);
    case RecurrentKind::mamba2: return mamba2_params(r, h);
    case RecurrentKind::gated_delta_net: return delta_net_params(r, h);
  }
  return 0;
}

double dense_ffn_params(const FfnSpec& ffn, std::int64_t hidden, std::int64_t width) {
  const double h = number(hidden), f = number(width), in = ffn.gated ? 2.0 : 1.0;
  return (in + 1.0) * h * f + (ffn.bias ? in * f + h : 0.0);
}

double expert_params(const FfnSpec& ffn, std::int64_t hidden) {
  return dense_ffn_params(ffn, ffn.latent > 0 ? ffn.latent : hidden, ffn.expert_width);
}

double ffn_params(const FfnSpec& ffn, std::int64_t hidden) {
  const double h = number(hidden), experts = number(ffn.experts);
  double count = ffn.width > 0 ? dense_ffn_params(ffn, hidden, ffn.width) : 0.0;
  if (!ffn.is_moe()) return count;
  count += experts * expert_params(ffn, hidden) + h * experts;
  if (ffn.router_bias) count += experts;
  if (ffn.shared_width > 0) count += dense_ffn_params(ffn, hidden, ffn.shared_width);
  if (ffn.shared_gate) count += h;
  if (ffn.latent > 0) count += 2.0 * h * number(ffn.latent);
  return count;
}

double norm_params(const LayerSpec& layer, std::int64_t hidden) {
  return static_cast<double>(layer.norms) * static_cast<double>(layer.norm_vectors) * number(hidden);
}

void count_layer(LayerSpec& layer, std::int64_t hidden) {
  const double h = number(hidden);
  double count = norm_params(layer, hidden);
  double unused = 0;
  layer.expert_params = 0;
  if (layer.attention) count += attention_params(*layer.attention, hidden);
  if (layer.cross) count += attention_params(*layer.cross, hidden);
  if (layer.recurrent) count += recurrent_params(*layer.recurrent, hidden);
  if (layer.ffn) {
    count += ffn_params(*layer.ffn, hidden);
    const double one = expert_params(*layer.ffn, hidden);
    layer.expert_params = number(layer.ffn->experts) * one;
    unused = number(layer.ffn->experts - std::min(layer.ffn->topk, layer.ffn->experts)) * one;
  }
  if (layer.double_stream && layer.attention) {
    // The second stream: its own projections and FFN; where it ends, Q, K and V alone.
    const double own = attention_params(*layer.attention, hidden);
    const double out =
        number(layer.attention->q_heads) * number(layer.attention->v_dim) * h + (layer.attention->out_bias ? h : 0.0);
    count += layer.second_stream_ends ? own - out : own + (layer.ffn ? ffn_params(*layer.ffn, hidden) : 0.0);
  }
  count += number(layer.modulation_width) * (h + 1.0);
  layer.params = count;
  layer.active_params = count - unused;
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
