// The double-gated short convolution of LFM2: y = C * conv(B * x), where B, C and x are projections of the hidden state.
//
// Source: Lfm2ShortConv of Hugging Face transformers (modeling_lfm2.py); vLLM's ShortConv runs the same kernels, the two
// products as kernels of their own, and keeps the last conv_L_cache - 1 inputs of the convolution a sequence. No kernel
// that fuses the products is published, so every fusion level has them.
#include <algorithm>
#include <array>

#include "ops/as_double.hpp"
#include "ops/mixer/table.hpp"
#include "ops/step/step.hpp"

namespace plumbline {
namespace {

struct ShortConvSpec final : MixerOf<ShortConvSpec> {
  std::int64_t channels = 0;  ///< the hidden width
  std::int64_t taps = 0;
  bool bias = false;  ///< of the projections and of the convolution

  bool operator==(const ShortConvSpec&) const = default;
  std::string kind() const override { return "short conv"; }
  std::string_view block() const override { return "short_conv"; }
  void sizes(MixerSizes& to) override {
    to.whole("channels", channels);
    to.whole("taps", taps);
    to.flag("bias", bias);
  }
  ParamCount params(std::int64_t hidden) const override;
  Bytes cache(const CacheQuery& query) const override;
  double stored(const MixerLoad& load) const override;
  double live(const MixerLoad& load) const override;
  SegmentNames segment() const override { return {"conv_layer", "conv_moe_layer"}; }
  void lower(lowering::Step& step) const override;
};

constexpr std::array<std::string_view, 1> kShortConvWords{"conv"};

/// All layers but those that the file lists.
std::optional<std::vector<bool>> places_short_conv(const LlmConfig& config, std::int64_t layers) {
  const auto list = config.find({"full_attn_idxs"});
  if (!list) return std::nullopt;
  std::vector<bool> here(static_cast<std::size_t>(layers), true);
  for (const JsonValue& value : list->elements()) {
    here[static_cast<std::size_t>(integer_within(value, 0, layers - 1))] = false;
  }
  return here;
}

LayerMixer read_short_conv(const LlmConfig& config, const LayerPlace& place) {
  ShortConvSpec s;
  s.channels = place.hidden;
  s.taps = config.dim({"conv_L_cache"}, "taps of the short convolution");
  s.bias = config.flag_or({"conv_bias"}, false);
  for (const char* key : {"conv_dim", "conv_dim_out"}) {
    if (config.dim_or({key}, place.hidden) != place.hidden) {
      config.find({key})->fail("expected the hidden width, " + std::to_string(place.hidden));
    }
  }
  return s;
}

/// in_proj to B, C and x; the depthwise convolution; out_proj.
ParamCount ShortConvSpec::params(std::int64_t hidden) const {
  const double h = d(hidden), c = d(channels);
  return {h * 3.0 * c + c * h, c * d(taps) + (bias ? 3.0 * c + c + h : 0.0)};
}

Bytes ShortConvSpec::cache(const CacheQuery& query) const {
  return storage(query.base, d(channels) * d(std::max<std::int64_t>(0, taps - 1))) / d(query.tensor);
}

/// Input of in_proj; B, C and x; B * x, the convolution's result, and what out_proj reads.
double ShortConvSpec::stored(const MixerLoad& load) const {
  return load.tokens * load.element * (load.hidden + 6 * d(channels) / load.tensor);
}

/// While the convolution runs: the layer's input; B, C and x; what it reads and what it writes.
double ShortConvSpec::live(const MixerLoad& load) const {
  return load.tokens * (load.hidden + 5 * d(channels) / load.tensor);
}

void ShortConvSpec::lower(lowering::Step& s) const {
  using namespace lowering;
  const std::int64_t local = s.share(channels);
  s.quantize("in_quantize"_node, s.tokens, s.hidden, s.types.linear);
  s.linear("in_proj"_node, s.tokens, 3 * local, s.hidden, bias);
  s.row("gate_in"_node.as(NodeRole::product), RowwiseKind::add, s.tokens, local);
  s.add("conv1d"_node, CausalConv{s.batch, s.q_len, local, taps, s.types.base});
  s.row("gate_out"_node.as(NodeRole::product), RowwiseKind::add, s.tokens, local);
  s.quantize("out_quantize"_node, s.tokens, local, s.types.linear);
  s.linear("out_proj"_node, s.tokens, s.hidden, local, bias);
  s.all_reduce("mixer_all_reduce"_node, "mixer_reduce_scatter"_node, s.tokens);
}

}  // namespace

MixerKind short_conv_mixer() {
  return {.words = kShortConvWords,
          .places = places_short_conv,
          .read = read_short_conv,
          .fresh = fresh_mixer<ShortConvSpec>};
}

}  // namespace plumbline
