// Lightning attention (MiniMax-01): linear attention with a fixed decay a head, an RMSNorm of its output, a sigmoid gate.
//
// Source: MiniMax-01 (arXiv 2501.08313, section 2.2) and MiniMaxLightningAttention of Hugging Face transformers 5.17. A
// state of head width x head width a head, updated as Mamba-2's with keys of their own a head.
#include <array>

#include "ops/as_double.hpp"
#include "ops/mixer/attention.hpp"
#include "ops/mixer/recurrent.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

struct LightningSpec final : MixerOf<LightningSpec> {
  std::int64_t heads = 0, head_dim = 0;
  DType state_dtype = DType::fp32;

  std::int64_t inner() const { return heads * head_dim; }
  StateWidths widths() const { return {d(inner()), d(head_dim), 0, 0, state_dtype}; }
  bool operator==(const LightningSpec&) const = default;
  std::string kind() const override { return "lightning"; }
  std::string_view block() const override { return "lightning"; }
  void sizes(MixerSizes& to) override {
    to.whole("heads", heads);
    to.whole("head_dim", head_dim);
    to.type("state_dtype", state_dtype);
  }
  ParamCount params(std::int64_t hidden) const override { return {5.0 * d(hidden) * d(inner()), d(inner())}; }
  Bytes cache(const CacheQuery& query) const override { return state_cache(widths(), query); }
  double stored(const MixerLoad& load) const override { return stored_recurrence(widths(), 2 * d(inner()), load); }
  double live(const MixerLoad& load) const override { return live_recurrence(widths(), load); }
  SegmentNames segment() const override { return kRecurrentSegment; }
  std::int64_t split_heads() const override { return heads; }
  void lower(lowering::Step& step) const override;
};

constexpr std::array<std::string_view, 1> kLightningWords{"linear_attention"};

bool meant_lightning(const LlmConfig& config) { return config.is("minimax"); }

/// 1 full attention, 0 lightning.
std::optional<std::vector<bool>> places_lightning(const LlmConfig& config, std::int64_t layers) {
  const auto list = config.find({"attn_type_list"});
  if (!list) return std::nullopt;
  const auto values = list->elements();
  if (static_cast<std::int64_t>(values.size()) < layers) {
    list->fail("expected one entry a layer (" + std::to_string(layers) + "), found " + std::to_string(values.size()));
  }
  std::vector<bool> here;
  for (std::int64_t i = 0; i < layers; ++i) {
    here.push_back(integer_within(values[static_cast<std::size_t>(i)], 0, 1) == 0);
  }
  return here;
}

LayerMixer read_lightning(const LlmConfig& config, const LayerPlace& place) {
  const AttentionSpec full = read_attention(config, place.hidden);
  LightningSpec r;
  r.heads = full.q_heads;
  r.head_dim = full.qk_dim;
  config.find({"block_size"});  // how prefill is cut into pieces
  return r;
}

void LightningSpec::lower(lowering::Step& s) const {
  using namespace lowering;
  const std::int64_t values = s.share(inner()), local = s.share(heads);
  s.quantize("in_quantize"_node, s.tokens, s.hidden, s.types.linear);
  s.linear("in_proj"_node, s.tokens, 3 * values, s.hidden);
  s.row("in_act"_node, RowwiseKind::silu, s.tokens, 3 * values);
  s.add("recurrence"_node, Recurrence{RecurrentKind::mamba2, s.batch, s.q_len, local, values / local, head_dim, local,
                                      s.types.base, state_dtype});
  s.linear("gate_proj"_node, s.tokens, values, s.hidden);
  gated_norm(s, s.tokens, values, true);
  out_projection(s, values);
}

}  // namespace

MixerKind lightning_mixer() {
  return {.words = kLightningWords,
          .meant = meant_lightning,
          .places = places_lightning,
          .read = read_lightning,
          .fresh = fresh_mixer<LightningSpec>};
}

}  // namespace plumbline
