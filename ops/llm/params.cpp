#include "ops/llm/params.hpp"

#include <algorithm>

#include "ops/as_double.hpp"
#include "ops/mixer/attention.hpp"

namespace plumbline {

ParamCount dense_ffn_params(const FfnSpec& ffn, std::int64_t hidden, std::int64_t width) {
  const double h = d(hidden), f = d(width), in = ffn.gated ? 2.0 : 1.0;
  return {(in + 1.0) * h * f, ffn.bias ? in * f + h : 0.0};
}

ParamCount expert_params(const FfnSpec& ffn, std::int64_t hidden) {
  ParamCount count = dense_ffn_params(ffn, ffn.latent > 0 ? ffn.latent : hidden, ffn.expert_width);
  if (!ffn.expert_bias) count.vectors = 0;
  return count;
}

ParamCount ffn_params(const FfnSpec& ffn, std::int64_t hidden) {
  const double h = d(hidden), experts = d(ffn.experts);
  ParamCount count;
  if (ffn.width > 0) count += dense_ffn_params(ffn, hidden, ffn.width);
  if (ffn.inner_norm) count.vectors += d(ffn.width);
  if (!ffn.is_moe()) return count;
  const ParamCount one = expert_params(ffn, hidden);
  const double router = ffn.router_width > 0 ? d(ffn.router_width) : h;
  count += {experts * one.matrices + router * experts, experts * one.vectors};
  count.matrices += router * d(ffn.identities);
  if (ffn.router_bias) count.vectors += experts;
  if (ffn.shared_width > 0) count += dense_ffn_params(ffn, hidden, ffn.shared_width);
  if (ffn.shared_gate) count.matrices += h;
  if (ffn.latent > 0) count.matrices += 2.0 * h * d(ffn.latent);
  return count;
}

ParamCount layer_params(const LayerSpec& layer, std::int64_t hidden) {
  const double h = d(hidden);
  // Norms over the hidden width, and the modulation with its bias.
  ParamCount count{
      d(layer.modulation_width) * h,
      static_cast<double>(layer.norms) * static_cast<double>(layer.norm_vectors) * h + d(layer.modulation_width)};
  if (layer.mixer) count += layer.mixer->params(hidden);
  if (layer.cross) count += layer.cross->params(hidden);
  if (layer.ffn) count += ffn_params(*layer.ffn, hidden);
  if (layer.feed) count += layer.feed->params(hidden);
  for (const BesideSpec::Matrix& matrix : layer.beside.matrices) count.matrices += d(matrix.in) * d(matrix.out);
  count.vectors += d(layer.beside.vectors);
  const auto* attention = layer.mixer.as<AttentionSpec>();
  if (!layer.double_stream || attention == nullptr) return count;
  // The second stream: its own projections and FFN; where it ends, Q, K and V alone.
  count += attention->params(hidden);
  if (layer.second_stream_ends) {
    count.matrices -= d(attention->q_heads) * d(attention->v_dim) * h;
    count.vectors -= attention->out_bias ? h : 0.0;
  } else if (layer.ffn) {
    count += ffn_params(*layer.ffn, hidden);
  }
  return count;
}

void count_layer(LayerSpec& layer, std::int64_t hidden) {
  layer.params = layer.active_params = layer_params(layer, hidden).total();
  layer.expert_params = 0;
  for (const LayerMixer* part : {&layer.mixer, &layer.feed}) {
    if (!*part) continue;
    layer.active_params -= (*part)->idle_params(hidden);
    layer.expert_params += (*part)->expert_params(hidden);
  }
  if (!layer.ffn || !layer.ffn->is_moe()) return;
  const double one = expert_params(*layer.ffn, hidden).total();
  const std::int64_t unused = layer.ffn->experts - std::min(layer.ffn->topk, layer.ffn->experts);
  layer.expert_params += d(layer.ffn->experts) * one;
  layer.active_params -= d(unused) * one;
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
  return stack.passes == 1 ? sum : sum / stack.passes;
}

}  // namespace

double stack_layer_params(const StackSpec& stack) {
  return over_layers(stack, [](const LayerSpec& layer) { return layer.params; });
}

double stack_active_layer_params(const StackSpec& stack) {
  return over_layers(stack, [](const LayerSpec& layer) { return layer.active_params; });
}

}  // namespace plumbline
