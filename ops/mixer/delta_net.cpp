#include "ops/mixer/delta_net.hpp"

#include <algorithm>
#include <array>

#include "ops/as_double.hpp"
#include "ops/mixer/recurrent.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, 1> kDeltaNetWords{"linear_attention"};

bool meant_delta_net(const LlmConfig& config) {
  return config.family().has(kDeltaNet) || config.has({"linear_num_value_heads", "full_attention_interval"});
}

/// Every n-th layer has full attention.
std::optional<std::vector<bool>> places_delta_net(const LlmConfig& config, std::int64_t layers) {
  const auto n = config.maybe_dim({"full_attention_interval"});
  if (!n) return std::nullopt;
  std::vector<bool> here;
  for (std::int64_t i = 0; i < layers; ++i) here.push_back((i + 1) % *n != 0);
  return here;
}

LayerMixer read_delta_net(const LlmConfig& config, const LayerPlace&) {
  DeltaNetSpec r;
  r.heads = config.dim({"linear_num_value_heads"}, "DeltaNet value heads");
  r.head_dim = config.dim({"linear_value_head_dim"}, "DeltaNet value width");
  r.key_heads = config.dim({"linear_num_key_heads"}, "DeltaNet key heads");
  r.key_dim = config.dim({"linear_key_head_dim"}, "DeltaNet key width");
  config.product(r.heads, r.head_dim, "linear_num_value_heads");
  config.product(r.key_heads, r.key_dim, "linear_num_key_heads");
  r.conv = config.dim_or({"linear_conv_kernel_dim"}, 4);
  r.state_dtype = read_state_dtype(config);
  return r;
}

StateWidths widths(const DeltaNetSpec& r) {
  return {d(r.inner()), d(r.key_dim), 2 * d(r.key_heads * r.key_dim), d(r.conv), r.state_dtype};
}

}  // namespace

MixerKind delta_net_mixer() {
  return {.words = kDeltaNetWords,
          .meant = meant_delta_net,
          .places = places_delta_net,
          .read = read_delta_net,
          .fresh = fresh_mixer<DeltaNetSpec>};
}

/// Qwen3NextGatedDeltaNet: q, k, v, z; beta and alpha; conv without bias; A and dt bias; norm.
ParamCount DeltaNetSpec::params(std::int64_t hidden) const {
  const double h = d(hidden), k = d(key_heads) * d(key_dim), v = d(inner()), n = d(heads);
  return {h * (2.0 * k + 2.0 * v) + 2.0 * h * n + v * h, (2.0 * k + v) * d(conv) + 2.0 * n + d(head_dim)};
}

Bytes DeltaNetSpec::cache(const CacheQuery& query) const { return state_cache(widths(*this), query); }

double DeltaNetSpec::stored(const MixerLoad& load) const {
  return stored_recurrence(widths(*this), 2 * d(key_heads * key_dim), load);
}

double DeltaNetSpec::live(const MixerLoad& load) const { return live_recurrence(widths(*this), load); }

SegmentNames DeltaNetSpec::segment() const { return kRecurrentSegment; }

/// Two input projections (q, k, v, z and the two gates a head), one at `max`. Q and K are L2-normalized inside the
/// recurrence kernel, outside it in eager code.
void DeltaNetSpec::lower(lowering::Step& s) const {
  using namespace lowering;
  const std::int64_t local_heads = s.share(heads), local_keys = s.share(key_heads), values = s.share(inner());
  const std::int64_t keys = local_keys * key_dim;
  s.quantize("in_quantize"_node, s.tokens, s.hidden, s.types.linear);
  if (s.max()) {
    s.linear("in_proj"_node, s.tokens, 2 * keys + 2 * values + 2 * local_heads, s.hidden);
  } else {
    s.linear("in_proj"_node, s.tokens, 2 * keys + 2 * values, s.hidden);
    s.linear("gates_proj"_node, s.tokens, 2 * local_heads, s.hidden);
  }
  causal_conv(s, conv, 2 * keys + values);
  if (s.none()) {
    s.norm("q_norm"_node, NormKind::rms, s.tokens * local_keys, key_dim);
    s.norm("k_norm"_node, NormKind::rms, s.tokens * local_keys, key_dim);
  }
  s.add("recurrence"_node,
        Recurrence{RecurrentKind::gated_delta_net, s.batch, s.q_len, local_heads, values / local_heads, key_dim,
                   std::max<std::int64_t>(1, local_keys), s.types.base, state_dtype});
  gated_norm(s, s.tokens * local_heads, values / local_heads, true);
  out_projection(s, values);
}

void DeltaNetSpec::sizes(MixerSizes& to) {
  to.whole("heads", heads);
  to.whole("head_dim", head_dim);
  to.whole("key_heads", key_heads);
  to.whole("key_dim", key_dim);
  to.whole("conv", conv);
  to.type("state_dtype", state_dtype);
}

}  // namespace plumbline
