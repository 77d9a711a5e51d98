#include "ops/mixer/mamba1.hpp"

#include <array>

#include "ops/as_double.hpp"
#include "ops/mixer/recurrent.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, 1> kMamba1Words{"mamba"};

/// Jamba's, and models of nothing but Mamba unless the file says Mamba-2 (the native layout in `layer`).
bool meant_mamba1(const LlmConfig& config) {
  if (config.family().layout != Layout::mamba) return config.is("jamba") || config.is("zamba");
  return !config.is("mamba2") && config.text_or({"layer"}, "Mamba1") != "Mamba2";
}

LayerMixer read_mamba1(const LlmConfig& config, const LayerPlace& place) {
  Mamba1Spec r;
  auto inner = config.maybe_dim({"mamba_d_inner", "d_inner"});
  if (!inner && !config.is("jamba") && !config.is("zamba"))
    inner = config.maybe_dim({"intermediate_size"});  // MambaConfig writes it out
  if (inner) {
    r.inner = *inner;
    config.find({"mamba_expand", "expand"});
  } else {
    r.inner = config.product(place.hidden, config.dim_or({"mamba_expand", "expand"}, 2), "mamba_expand");
  }
  r.state = config.dim_or({"mamba_d_state", "state_size", "d_state"}, 16);
  r.conv = config.dim_or({"mamba_d_conv", "conv_kernel", "d_conv"}, 4);
  const auto rank = config.find({"mamba_dt_rank", "time_step_rank", "dt_rank"});
  const bool automatic = !rank || (rank->is_string() && rank->as_string() == "auto");
  r.dt_rank = automatic ? (place.hidden + 15) / 16 : integer_within(*rank, 1, LlmConfig::kLargestDim);
  r.inner_norms = config.is("jamba");  // FalconMamba's norms have no weights
  r.state_dtype = read_state_dtype(config);
  config.find({"n_mamba_heads"});  // Zamba's heads of x and dt share their products' sizes
  r.bias = config.flag_or({"mamba_proj_bias", "use_bias", "bias"}, false);
  r.conv_bias = config.flag_or({"mamba_conv_bias", "use_conv_bias", "conv_bias"}, true);
  return r;
}

StateWidths widths(const Mamba1Spec& r) { return {d(r.inner), d(r.state), 0, d(r.conv), r.state_dtype}; }

}  // namespace

MixerKind mamba1_mixer() {
  return {.words = kMamba1Words,
          .meant = meant_mamba1,
          .places = mamba_places,
          .read = read_mamba1,
          .fresh = fresh_mixer<Mamba1Spec>};
}

/// MambaMixer: in, depthwise conv + bias, x and dt projections, A, D, out.
ParamCount Mamba1Spec::params(std::int64_t hidden) const {
  const double h = d(hidden), i = d(inner), s = d(state), c = d(conv), rank = d(dt_rank);
  const double norms = inner_norms ? rank + 2.0 * s : 0.0;
  return {h * 2.0 * i + i * (rank + 2.0 * s) + rank * i + i * h,
          i * (c + (conv_bias ? 1.0 : 0.0)) + i + i * s + i + norms + (bias ? 2.0 * i + h : 0.0)};
}

Bytes Mamba1Spec::cache(const CacheQuery& query) const { return state_cache(widths(*this), query); }

double Mamba1Spec::stored(const MixerLoad& load) const { return stored_recurrence(widths(*this), 2 * d(state), load); }

double Mamba1Spec::live(const MixerLoad& load) const { return live_recurrence(widths(*this), load); }

SegmentNames Mamba1Spec::segment() const { return kRecurrentSegment; }

/// One channel a head. The scan kernel applies the gate itself (selective_scan_fn takes z), so only eager code pays.
void Mamba1Spec::lower(lowering::Step& s) const {
  using namespace lowering;
  const std::int64_t channels = s.share(inner);
  s.quantize("in_quantize"_node, s.tokens, s.hidden, s.types.linear);
  s.linear("in_proj"_node, s.tokens, 2 * channels, s.hidden, bias);
  causal_conv(s, conv, channels);
  s.linear("x_proj"_node, s.tokens, dt_rank + 2 * state, channels);
  if (inner_norms) s.norm("inner_norm"_node, NormKind::rms, s.tokens, dt_rank + 2 * state);
  s.linear("dt_proj"_node, s.tokens, channels, dt_rank);
  s.add("recurrence"_node,
        Recurrence{RecurrentKind::mamba1, s.batch, s.q_len, channels, 1, state, 1, s.types.base, state_dtype});
  if (s.none()) gated_norm(s, s.tokens, channels, false);
  out_projection(s, channels, bias);
}

void Mamba1Spec::sizes(MixerSizes& to) {
  to.whole("inner", inner);
  to.whole("state", state);
  to.whole("conv", conv);
  to.whole("dt_rank", dt_rank);
  to.flag("inner_norms", inner_norms);
  to.type("state_dtype", state_dtype);
  to.flag("bias", bias);
  to.flag("conv_bias", conv_bias);
}

}  // namespace plumbline
