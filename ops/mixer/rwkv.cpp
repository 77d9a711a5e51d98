// RWKV-4's time mixing: a weighted mean of all values so far, whose weights decay a channel at its own rate.
//
// Source: RWKV (arXiv 2305.13048, section 3) and modeling_rwkv.py of Hugging Face transformers 5.17. The recurrence keeps a
// numerator, a denominator and the largest exponent a channel, and the last token for the shift: it is lowered as Mamba's
// with a state of three elements a channel.
#include <array>

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

constexpr std::array kWords{kFullAttention};

bool meant(const LlmConfig& config) { return config.is("rwkv"); }

LayerMixer read(const LlmConfig& config, const LayerPlace& place) {
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

}  // namespace

MixerKind rwkv_mixer() { return {.words = kWords, .meant = meant, .read = read}; }

}  // namespace plumbline
