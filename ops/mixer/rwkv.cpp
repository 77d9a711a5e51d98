// RWKV's time mixing. Version 4: a weighted mean of all values so far, whose weights decay a channel at its own rate. From
// version 5 on a state of head width x head width a head, which decays (5, 6) or is updated by a delta rule (7).
//
// Sources: RWKV (arXiv 2305.13048, section 3) and modeling_rwkv.py of Hugging Face transformers 5.17; Eagle and Finch (arXiv
// 2404.05892, appendix on parameters), Goose (arXiv 2503.14456). Version 4 keeps a numerator, a denominator and the largest
// exponent a channel, and the last token for the shift: it is lowered as Mamba's with a state of three elements a channel.
#include <array>
#include <tuple>

#include "ops/as_double.hpp"
#include "ops/mixer/recurrent.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kState = 3;

struct RwkvSpec final : MixerOf<RwkvSpec> {
  std::int64_t width = 0;
  DType state_dtype = DType::fp32;

  StateWidths widths() const { return {d(width), d(kState), 0, 2, state_dtype}; }
  bool operator==(const RwkvSpec&) const = default;
  std::string kind() const override { return "rwkv4"; }
  std::string_view block() const override { return "rwkv4"; }
  void sizes(MixerSizes& to) override {
    to.whole("width", width);
    to.type("state_dtype", state_dtype);
  }
  /// Key, value, receptance and output; three mixes of the shift over the hidden width, decay and bonus.
  ParamCount params(std::int64_t hidden) const override {
    return {4.0 * d(hidden) * d(width), 3.0 * d(hidden) + 2.0 * d(width)};
  }
  Bytes cache(const CacheQuery& query) const override { return state_cache(widths(), query); }
  double stored(const MixerLoad& load) const override { return stored_recurrence(widths(), 2 * d(width), load); }
  double live(const MixerLoad& load) const override { return live_recurrence(widths(), load); }
  SegmentNames segment() const override { return kRecurrentSegment; }
  void lower(lowering::Step& step) const override;
};

constexpr std::array kRwkvWords{kFullAttention};

bool meant_rwkv(const LlmConfig& config) { return config.is("rwkv"); }

LayerMixer read_rwkv(const LlmConfig& config, const LayerPlace& place) {
  RwkvSpec r;
  r.width = config.dim_or({"attention_hidden_size"}, place.hidden);
  config.find({"context_length", "rescale_every"});
  return r;
}

void RwkvSpec::lower(lowering::Step& s) const {
  using namespace lowering;
  const std::int64_t local = s.share(width);
  s.row("time_shift"_node, RowwiseKind::add, s.tokens, s.hidden);
  s.quantize("in_quantize"_node, s.tokens, s.hidden, s.types.linear);
  s.linear("in_proj"_node, s.tokens, 3 * local, s.hidden);
  s.add("recurrence"_node,
        Recurrence{RecurrentKind::mamba1, s.batch, s.q_len, local, 1, kState, 1, s.types.base, state_dtype});
  gated_norm(s, s.tokens, local, false);
  out_projection(s, local);
}

struct RwkvHeadsSpec final : MixerOf<RwkvHeadsSpec> {
  int version = 5;
  std::int64_t width = 0, head = 64;
  std::int64_t shift_rank = 0, decay_rank = 0;                ///< 6: five mixes of the shift, the decay
  std::int64_t rate_rank = 0, value_rank = 0, gate_rank = 0;  ///< 7: in-context rate, values of the first layer, gate
  DType state_dtype = DType::fp32;

  StateWidths widths() const { return {d(width), d(head), 0, 2, state_dtype}; }
  bool operator==(const RwkvHeadsSpec&) const = default;
  std::string kind() const override { return "rwkv" + std::to_string(version); }
  std::string_view block() const override { return "rwkv"; }
  void sizes(MixerSizes& to) override {
    to.whole("version", version);
    to.whole("width", width);
    to.whole("head", head);
    to.whole("shift_rank", shift_rank);
    to.whole("decay_rank", decay_rank);
    to.whole("rate_rank", rate_rank);
    to.whole("value_rank", value_rank);
    to.whole("gate_rank", gate_rank);
    to.type("state_dtype", state_dtype);
  }
  ParamCount params(std::int64_t hidden) const override;
  Bytes cache(const CacheQuery& query) const override { return state_cache(widths(), query); }
  double stored(const MixerLoad& load) const override { return stored_recurrence(widths(), 3 * d(width), load); }
  double live(const MixerLoad& load) const override { return live_recurrence(widths(), load); }
  SegmentNames segment() const override { return kRecurrentSegment; }
  std::int64_t split_heads() const override { return width / head; }
  void lower(lowering::Step& step) const override;
};

constexpr std::array kHeadsWords{kFullAttention};

bool meant_with_heads(const LlmConfig& config) {
  return config.is("rwkv5") || config.is("rwkv6") || config.is("rwkv7");
}

/// The ranks of version 6 are in no file: wide models of its authors have twice those of the others. Lists of version 7 with
/// an entry a layer must say what the width says.
LayerMixer read_with_heads(const LlmConfig& config, const LayerPlace& place) {
  RwkvHeadsSpec r;
  r.version = config.is("rwkv5") ? 5 : (config.is("rwkv6") ? 6 : 7);
  r.width = config.dim_or({"attention_hidden_size"}, place.hidden);
  r.head = config.dim_or({"head_size", "head_dim"}, 64);
  config.find({"num_attention_heads", "num_heads", "head_size_divisor", "rescale_every", "model_version"});
  config.find({"num_heads"});
  if (r.width % r.head != 0) config.inner().fail("the width of attention is no multiple of the head width");
  if (r.version == 6) {
    const bool wide = place.hidden >= 4096;
    r.shift_rank = wide ? 64 : 32;
    r.decay_rank = wide ? 128 : 64;
    config.assume("RWKV-6's low ranks are in no key: " + std::to_string(r.shift_rank) + " of the shift, " +
                  std::to_string(r.decay_rank) + " of the decay, as its authors' models of this width have");
  }
  if (r.version < 7) return r;
  r.decay_rank = config.dim({"decay_low_rank_dim"}, "rank of the decay");
  r.rate_rank = config.dim({"a_low_rank_dim"}, "rank of the in-context rate");
  r.gate_rank = config.dim({"gate_low_rank_dim"}, "rank of the gate");
  const std::int64_t values = config.dim({"v_low_rank_dim"}, "rank of the values");
  r.value_rank = place.layer > 0 ? values : 0;
  config.find({"hidden_ratio"});
  if (const auto attention = config.find({"attn"}); attention && attention->size() > 0) {
    attention->fail("layers of attention between those of RWKV-7 are not understood");
  }
  if (const auto list = config.find({"value_dim"}); list && list->is_array()) {
    for (const JsonValue& value : list->elements()) {
      if (value.as_integer() != r.width) value.fail("expected the width of attention, " + std::to_string(r.width));
    }
  }
  return r;
}

/// Receptance, key, value and output everywhere; the gate is a matrix in 5 and 6. Mixes of the shift, decay, bonus (7: two
/// scales of the key too) and the norm of each head's output with its bias are vectors.
ParamCount RwkvHeadsSpec::params(std::int64_t hidden) const {
  const double h = d(hidden), w = d(width), square = h * w;
  if (version == 5) return {5.0 * square, 4.0 * h + 4.0 * w};
  if (version == 6) {
    return {5.0 * square + 10.0 * d(shift_rank) * h + d(decay_rank) * (h + w), 6.0 * h + 4.0 * w};
  }
  const double ranks = d(decay_rank) + d(rate_rank) + d(gate_rank) + d(value_rank);
  return {4.0 * square + ranks * (h + w), 6.0 * h + 7.0 * w + (value_rank > 0 ? w : 0.0)};
}

void RwkvHeadsSpec::lower(lowering::Step& s) const {
  using namespace lowering;
  const std::int64_t local = s.share(width), heads = local / head;
  s.row("time_shift"_node, RowwiseKind::add, s.tokens, s.hidden);
  if (version == 6) {
    s.linear("shift_down_proj"_node, s.tokens, 5 * shift_rank, s.hidden);
    s.linear("shift_up_proj"_node, s.tokens, s.hidden, 5 * shift_rank);
  }
  s.quantize("in_quantize"_node, s.tokens, s.hidden, s.types.linear);
  s.linear("in_proj"_node, s.tokens, (version == 7 ? 3 : 4) * local, s.hidden);
  for (const auto& [down, up, rank] : {std::tuple{"decay_down_proj"_node, "decay_up_proj"_node, decay_rank},
                                       std::tuple{"rate_down_proj"_node, "rate_up_proj"_node, rate_rank},
                                       std::tuple{"value_down_proj"_node, "value_up_proj"_node, value_rank},
                                       std::tuple{"gate_down_proj"_node, "gate_up_proj"_node, gate_rank}}) {
    if (rank == 0) continue;
    s.linear(down, s.tokens, rank, s.hidden);
    s.linear(up, s.tokens, local, rank);
  }
  const RecurrentKind rule = version == 7 ? RecurrentKind::gated_delta_net : RecurrentKind::mamba2;
  s.add("recurrence"_node, Recurrence{rule, s.batch, s.q_len, heads, head, head, heads, s.types.base, state_dtype});
  gated_norm(s, s.tokens * heads, head, true);
  out_projection(s, local);
}

}  // namespace

MixerKind rwkv_heads_mixer() {
  return {
      .words = kHeadsWords, .meant = meant_with_heads, .read = read_with_heads, .fresh = fresh_mixer<RwkvHeadsSpec>};
}

MixerKind rwkv_mixer() {
  return {.words = kRwkvWords, .meant = meant_rwkv, .read = read_rwkv, .fresh = fresh_mixer<RwkvSpec>};
}

}  // namespace plumbline
