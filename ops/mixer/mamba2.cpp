#include "ops/mixer/mamba2.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "ops/as_double.hpp"
#include "ops/mixer/recurrent.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, 2> kMamba2Words{"mamba", "linear_attention"};

/// Heads and inner width of a Mamba-2 layer: the two that are stated give the third.
void read_mamba2_heads(const LlmConfig& config, std::int64_t hidden, Mamba2Spec& r) {
  const auto heads = config.maybe_dim({"mamba_num_heads", "mamba_n_heads", "num_heads", "n_mamba_heads"});
  config.find({"mamba_headdim"});  // Zamba2Config makes it from the two others
  const auto stated = config.find({"mamba_d_head"});
  const bool auto_width = stated && stated->is_string() && stated->as_string() == "auto";
  std::optional<std::int64_t> width;
  if (!auto_width && !config.is("zamba2")) width = config.maybe_dim({"mamba_head_dim", "mamba_d_head"});
  // Where there is attention too, the head width without a name is its own.
  if (!width && config.family().layout == Layout::mamba) width = config.maybe_dim({"head_dim"});
  if (heads && width && !config.has({"mamba_d_ssm"})) {
    config.find({"expand", "mamba_expand"});
    r.heads = *heads;
    r.head_dim = *width;
    r.inner = config.product(r.heads, r.head_dim, "mamba_num_heads");
    return;
  }
  const auto inner = config.maybe_dim({"mamba_d_ssm"});
  const std::int64_t expanded = config.product(hidden, config.dim_or({"expand", "mamba_expand"}, 2), "expand");
  r.inner = inner.value_or(expanded);
  r.head_dim = width ? *width : (heads ? r.inner / *heads : 64);
  if (r.head_dim < 1 || r.inner % r.head_dim != 0) {
    config.inner().fail("the inner width " + std::to_string(r.inner) +
                        " of 'expand' is no multiple of the head width " + std::to_string(r.head_dim));
  }
  r.heads = r.inner / r.head_dim;
}

LayerMixer read_mamba2(const LlmConfig& config, const LayerPlace& place) {
  // "linear_attention" alone names no mixer: without a size of this one it may be any other.
  if (place.word == "linear_attention" &&
      !config.has({"mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "mamba_d_state", "ssm_state_size"})) {
    config.inner().fail("layer kind 'linear_attention' without sizes of a mixer that is understood");
  }
  Mamba2Spec r;
  read_mamba2_heads(config, place.hidden, r);
  r.state = config.dim_or({"ssm_state_size", "mamba_d_state", "state_size", "d_state"}, 128);
  r.groups = config.dim_or({"n_groups", "mamba_n_groups", "mamba_ngroups", "ngroups"}, 1);
  r.conv = config.dim_or({"conv_kernel", "mamba_d_conv", "d_conv"}, 4);
  config.product(r.groups, r.state, "n_groups");
  r.chunk = config.dim_or({"chunk_size", "mamba_chunk_size"}, 256);
  r.state_dtype = read_state_dtype(config);
  r.in_bias = r.out_bias = config.flag_or({"mamba_proj_bias", "use_bias", "add_bias_linear"}, false);
  r.out_bias = config.flag_or({"projectors_bias"}, r.out_bias);
  r.conv_bias = config.flag_or({"mamba_conv_bias", "use_conv_bias"}, true) || config.is("zamba2");
  r.norm = config.flag_or({"mamba_rms_norm"}, true);
  config.flag_or({"mamba_norm_before_gate"}, true);
  return r;
}

StateWidths widths(const Mamba2Spec& r) {
  return {d(r.inner), d(r.state), 2 * d(r.groups * r.state), d(r.conv), r.state_dtype};
}

}  // namespace

MixerKind mamba2_mixer() {
  return {.words = kMamba2Words, .places = mamba_places, .read = read_mamba2, .fresh = fresh_mixer<Mamba2Spec>};
}

/// Mamba2Mixer: one in projection for z, x, B, C, dt; conv over x, B, C; A, D, dt bias; gated norm; out.
ParamCount Mamba2Spec::params(std::int64_t hidden) const {
  const double h = d(hidden), i = d(inner), gs = d(groups) * d(state), n = d(heads);
  const double wide = 2.0 * i + 2.0 * gs + n;
  ParamCount count{h * wide + i * h, (i + 2.0 * gs) * (d(conv) + (conv_bias ? 1.0 : 0.0)) + 3.0 * n};
  if (norm) count.vectors += i;
  if (in_bias) count.vectors += wide;
  if (out_bias) count.vectors += h;
  return count;
}

Bytes Mamba2Spec::cache(const CacheQuery& query) const { return state_cache(widths(*this), query); }

double Mamba2Spec::stored(const MixerLoad& load) const {
  return stored_recurrence(widths(*this), 2 * d(groups * state), load);
}

double Mamba2Spec::live(const MixerLoad& load) const { return live_recurrence(widths(*this), load); }

SegmentNames Mamba2Spec::segment() const { return kRecurrentSegment; }

void Mamba2Spec::lower(lowering::Step& s) const {
  using namespace lowering;
  const std::int64_t values = s.share(inner), local_heads = s.share(heads), local_groups = s.share(groups);
  const std::int64_t bc = 2 * local_groups * state;
  s.quantize("in_quantize"_node, s.tokens, s.hidden, s.types.linear);
  s.linear("in_proj"_node, s.tokens, 2 * values + bc + local_heads, s.hidden, in_bias);
  causal_conv(s, conv, values + bc);
  s.add("recurrence"_node,
        Recurrence{RecurrentKind::mamba2, s.batch, s.q_len, local_heads, values / local_heads, state,
                   std::max<std::int64_t>(1, local_groups), s.types.base, state_dtype, true, false, chunk});
  gated_norm(s, s.tokens, values, norm);
  out_projection(s, values, out_bias);
}

void Mamba2Spec::sizes(MixerSizes& to) {
  to.whole("inner", inner);
  to.whole("heads", heads);
  to.whole("head_dim", head_dim);
  to.whole("state", state);
  to.whole("groups", groups);
  to.whole("conv", conv);
  to.whole("chunk", chunk);
  to.type("state_dtype", state_dtype);
  to.flag("in_bias", in_bias);
  to.flag("out_bias", out_bias);
  to.flag("conv_bias", conv_bias);
  to.flag("norm", norm);
}

}  // namespace plumbline
