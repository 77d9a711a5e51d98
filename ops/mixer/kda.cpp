// Kimi Delta Attention: a gated delta rule whose decay is a vector a head, from a low-rank projection.
//
// Source: Kimi Linear (arXiv 2510.26692, section 3) and modeling_kimi_linear.py of Hugging Face transformers 5.17. The
// recurrence costs what a gated delta net's of these sizes costs, and reads a decay a key channel more.
#include <array>

#include "ops/as_double.hpp"
#include "ops/mixer/recurrent.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

struct KdaSpec final : MixerOf<KdaSpec> {
  std::int64_t heads = 0, head_dim = 0, conv = 0;  ///< keys and values alike
  DType state_dtype = DType::fp32;

  std::int64_t inner() const { return heads * head_dim; }
  StateWidths widths() const { return {d(inner()), d(head_dim), 2 * d(inner()), d(conv), state_dtype}; }
  bool operator==(const KdaSpec&) const = default;
  std::string kind() const override { return "kda"; }
  std::string_view block() const override { return "kda"; }
  void sizes(MixerSizes& to) override {
    to.whole("heads", heads);
    to.whole("head_dim", head_dim);
    to.whole("conv", conv);
    to.type("state_dtype", state_dtype);
  }
  ParamCount params(std::int64_t hidden) const override;
  Bytes cache(const CacheQuery& query) const override { return state_cache(widths(), query); }
  double stored(const MixerLoad& load) const override { return stored_recurrence(widths(), 3 * d(inner()), load); }
  double live(const MixerLoad& load) const override { return live_recurrence(widths(), load); }
  SegmentNames segment() const override { return kRecurrentSegment; }
  std::int64_t split_heads() const override { return heads; }
  void lower(lowering::Step& step) const override;
};

constexpr std::array<std::string_view, 1> kKdaWords{"linear_attention"};

bool meant_kda(const LlmConfig& config) { return config.is("kimi_linear"); }

/// `linear_attn_config` counts layers from one.
std::optional<std::vector<bool>> places_kda(const LlmConfig& config, std::int64_t layers) {
  const auto nested = config.find_object({"linear_attn_config"});
  std::vector<bool> here(static_cast<std::size_t>(layers), false);
  if (!nested) {
    // KimiLinearConfig: layers 4, 8, ... have full attention.
    for (std::int64_t i = 0; i < layers; ++i) here[static_cast<std::size_t>(i)] = i == 0 || i % 4 != 0;
    return here;
  }
  const auto list = nested->find_list("kda_layers");
  if (!list) nested->fail("missing 'kda_layers', the numbers of the layers with delta attention");
  for (const JsonValue& value : list->elements()) {
    here[static_cast<std::size_t>(integer_within(value, 1, layers) - 1)] = true;
  }
  return here;
}

LayerMixer read_kda(const LlmConfig& config, const LayerPlace&) {
  KdaSpec r;
  const auto nested = config.find_object({"linear_attn_config"});
  const auto size = [&](const char* inner, std::string_view outer, std::int64_t fallback) {
    if (nested) {
      if (const auto value = nested->find(inner)) return integer_within(*value, 1, LlmConfig::kLargestDim);
    }
    return config.dim_or({outer}, fallback);
  };
  r.heads = size("num_heads", "linear_num_heads", 32);
  r.head_dim = size("head_dim", "linear_head_dim", 128);
  r.conv = size("short_conv_kernel_size", "linear_conv_kernel_dim", 4);
  config.product(r.heads, r.head_dim, "linear_num_heads");
  r.state_dtype = read_state_dtype(config);
  return r;
}

/// q, k, v, output; decay and output gate through the head width; beta; convolutions, decay bias, A, norm.
ParamCount KdaSpec::params(std::int64_t hidden) const {
  const double h = d(hidden), i = d(inner()), w = d(head_dim), n = d(heads);
  return {4.0 * h * i + 2.0 * (h * w + w * i) + h * n, 3.0 * i * d(conv) + i + n + w};
}

void KdaSpec::lower(lowering::Step& s) const {
  using namespace lowering;
  const std::int64_t values = s.share(inner()), local = s.share(heads);
  s.quantize("in_quantize"_node, s.tokens, s.hidden, s.types.linear);
  s.linear("in_proj"_node, s.tokens, 3 * values, s.hidden);
  s.linear("gates_proj"_node, s.tokens, 2 * head_dim + local, s.hidden);
  s.linear("decay_proj"_node, s.tokens, values, head_dim);
  s.linear("gate_proj"_node, s.tokens, values, head_dim);
  causal_conv(s, conv, 3 * values);
  if (s.none()) {
    s.norm("q_norm"_node, NormKind::rms, s.tokens * local, head_dim);
    s.norm("k_norm"_node, NormKind::rms, s.tokens * local, head_dim);
  }
  s.row("decay"_node, RowwiseKind::silu, s.tokens, values);
  s.add("recurrence"_node, Recurrence{RecurrentKind::gated_delta_net, s.batch, s.q_len, local, values / local, head_dim,
                                      local, s.types.base, state_dtype, true, true});
  gated_norm(s, s.tokens * local, values / local, true);
  out_projection(s, values);
}

}  // namespace

MixerKind kda_mixer() {
  return {
      .words = kKdaWords, .meant = meant_kda, .places = places_kda, .read = read_kda, .fresh = fresh_mixer<KdaSpec>};
}

}  // namespace plumbline
