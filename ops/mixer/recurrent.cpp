#include "ops/mixer/recurrent.hpp"

#include <algorithm>

#include "ops/step/libraries.hpp"

namespace plumbline {

DType read_state_dtype(const LlmConfig& config) {
  const std::string text = config.text_or({"mamba_ssm_cache_dtype", "mamba_ssm_dtype"}, "float32");
  const auto type = parse_dtype(text);
  if (!type) config.assume("state type '" + text + "' is not known: fp32");
  return type.value_or(DType::fp32);
}

std::optional<std::vector<bool>> mamba_places(const LlmConfig& config, std::int64_t layers) {
  std::vector<bool> here(static_cast<std::size_t>(layers), true);
  if (const auto period = config.maybe_dim({"attn_layer_period"})) {
    const std::int64_t offset = config.count_or({"attn_layer_offset"}, 0);
    for (std::int64_t i = 0; i < layers; ++i) here[static_cast<std::size_t>(i)] = i % *period != offset;
    return here;
  }
  const auto list = config.find({"attn_layer_indices"});
  if (!list && config.is("bamba")) return here;  // BambaConfig: without indices no layer has attention
  if (!list) return std::nullopt;
  for (const JsonValue& value : list->elements()) {
    here[static_cast<std::size_t>(integer_within(value, 0, layers - 1))] = false;
  }
  return here;
}

Bytes state_cache(const StateWidths& n, const CacheQuery& query) {
  const Bytes matrix = storage(n.type, n.inner * n.state);
  const Bytes conv = storage(query.base, (n.inner + n.beside) * std::max(0.0, n.conv - 1));
  return (matrix + conv) / static_cast<double>(query.tensor);
}

double stored_recurrence(const StateWidths& n, double mixed, const MixerLoad& v) {
  const double inner = n.inner / v.tensor;
  return v.tokens * v.element * (v.hidden + 2 * (inner + mixed / v.tensor) + inner + 2 * inner) +
         v.tokens / lowering::kScanChunk * inner * n.state * 4;
}

double live_recurrence(const StateWidths& n, const MixerLoad& v) {
  return v.tokens * (v.hidden + 4 * n.inner / v.tensor);
}

namespace lowering {

void causal_conv(Step& s, std::int64_t taps, std::int64_t channels) {
  if (taps > 0) s.add("conv1d"_node, CausalConv{s.batch, s.q_len, channels, taps, s.types.base});
}

void gated_norm(Step& s, std::int64_t rows, std::int64_t cols, bool norm) {
  if (!s.none()) {
    s.row(norm ? "gated_norm"_node : "gate"_node, RowwiseKind::swiglu, rows, cols);
    return;
  }
  s.row("gate_act"_node, RowwiseKind::silu, rows, cols);
  s.row("gate_mul"_node.as(NodeRole::product), RowwiseKind::add, rows, cols);
  if (norm) s.norm("gated_norm"_node, NormKind::rms, rows, cols);
}

void out_projection(Step& s, std::int64_t width, bool bias) {
  s.quantize("out_quantize"_node, s.tokens, width, s.types.linear);
  s.linear("out_proj"_node, s.tokens, s.hidden, width, bias);
  s.all_reduce("mixer_all_reduce"_node, "mixer_reduce_scatter"_node, s.tokens);
}

}  // namespace lowering
}  // namespace plumbline
