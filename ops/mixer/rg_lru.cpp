// The recurrent block of Griffin (RecurrentGemma): two branches, of which one goes through a short convolution and a
// real-gated linear recurrence of one number a channel.
//
// Source: Griffin (arXiv 2402.19427, section 2.4) and modeling_recurrent_gemma.py of Hugging Face transformers 5.17. The
// recurrence moves what Mamba's moves with a state of one element a channel, and is lowered as that.
#include <array>

#include "ops/as_double.hpp"
#include "ops/mixer/recurrent.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

struct RgLruSpec final : MixerOf<RgLruSpec> {
  std::int64_t width = 0, blocks = 1, conv = 0;  ///< gates are products of `blocks` blocks of the width
  DType state_dtype = DType::fp32;

  StateWidths widths() const { return {d(width), 1, 0, d(conv), state_dtype}; }
  bool operator==(const RgLruSpec&) const = default;
  std::string kind() const override { return "rg-lru"; }
  std::string_view block() const override { return "rg_lru"; }
  void sizes(MixerSizes& to) override {
    to.whole("width", width);
    to.whole("blocks", blocks);
    to.whole("conv", conv);
    to.type("state_dtype", state_dtype);
  }
  ParamCount params(std::int64_t hidden) const override;
  Bytes cache(const CacheQuery& query) const override { return state_cache(widths(), query); }
  double stored(const MixerLoad& load) const override { return stored_recurrence(widths(), 2 * d(width), load); }
  double live(const MixerLoad& load) const override { return live_recurrence(widths(), load); }
  SegmentNames segment() const override { return kRecurrentSegment; }
  std::int64_t split_heads() const override { return blocks; }
  void lower(lowering::Step& step) const override;
};

constexpr std::array<std::string_view, 1> kRgLruWords{"recurrent"};

LayerMixer read_rg_lru(const LlmConfig& config, const LayerPlace& place) {
  RgLruSpec r;
  r.width = config.dim_or({"lru_width"}, place.hidden);
  r.blocks = config.dim({"num_attention_heads"}, "attention heads");
  r.conv = config.dim_or({"conv1d_width"}, 4);
  if (r.width % r.blocks != 0) {
    config.find({"lru_width", "num_attention_heads"})->fail("expected a width that the heads share evenly");
  }
  return r;
}

/// Projections to both branches and back with biases; convolution; two block-diagonal gates; the decay.
ParamCount RgLruSpec::params(std::int64_t hidden) const {
  const double h = d(hidden), w = d(width), gate = w * w / d(blocks);
  return {3.0 * h * w + 2.0 * gate, 2.0 * w + h + w * (d(conv) + 1.0) + 2.0 * w + w};
}

void RgLruSpec::lower(lowering::Step& s) const {
  using namespace lowering;
  const std::int64_t local = s.share(width), parts = s.share(blocks), each = width / blocks;
  s.quantize("in_quantize"_node, s.tokens, s.hidden, s.types.linear);
  s.linear("in_proj"_node, s.tokens, 2 * local, s.hidden, true);
  causal_conv(s, conv, local);
  s.gemm("gates_proj"_node, s.tokens, 2 * each, each, s.types.plain, true, parts);
  s.add("recurrence"_node,
        Recurrence{RecurrentKind::mamba1, s.batch, s.q_len, 1, local, 1, 1, s.types.base, state_dtype});
  gated_norm(s, s.tokens, local, false);
  out_projection(s, local, true);
}

}  // namespace

MixerKind rg_lru_mixer() { return {.words = kRgLruWords, .read = read_rg_lru, .fresh = fresh_mixer<RgLruSpec>}; }

}  // namespace plumbline
