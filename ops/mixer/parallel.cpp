// Attention and a Mamba-2 mixer that read the same normed input and are added (Falcon-H1).
//
// Source: FalconH1DecoderLayer of Hugging Face transformers (modeling_falcon_h1.py); the multipliers of its inputs and
// outputs are folded into the neighbouring kernels.
#include <array>

#include "ops/mixer/attention.hpp"
#include "ops/mixer/table.hpp"
#include "ops/step/step.hpp"

namespace plumbline {
namespace {

struct ParallelSpec final : MixerOf<ParallelSpec> {
  LayerMixer attention, recurrence;

  bool operator==(const ParallelSpec&) const = default;
  std::string kind() const override { return attention->kind() + " beside " + recurrence->kind(); }
  std::string_view block() const override { return "parallel_mixers"; }
  void sizes(MixerSizes& to) override {
    to.part("attention", attention);
    to.part("recurrence", recurrence);
  }
  ParamCount params(std::int64_t hidden) const override {
    ParamCount both = attention->params(hidden);
    return both += recurrence->params(hidden);
  }
  double kv_elements() const override { return attention->kv_elements(); }
  Bytes cache(const CacheQuery& query) const override { return attention->cache(query) + recurrence->cache(query); }
  double stored(const MixerLoad& load) const override { return attention->stored(load) + recurrence->stored(load); }
  double live(const MixerLoad& load) const override { return attention->live(load) + recurrence->live(load); }
  Bytes partials(double sequences, std::int64_t tensor) const override {
    return attention->partials(sequences, tensor);
  }
  SegmentNames segment() const override { return {"parallel_mixer_layer", "parallel_mixer_moe_layer"}; }
  std::int64_t split_heads() const override { return attention->split_heads(); }
  void lower(lowering::Step& step) const override;
};

constexpr std::array kParallelWords{kFullAttention, kSlidingAttention};

bool meant_parallel(const LlmConfig& config) { return config.is("falcon_h1"); }

LayerMixer read_parallel(const LlmConfig& config, const LayerPlace& place) {
  ParallelSpec both;
  both.attention = attention_mixer().read(config, place);
  both.recurrence = mamba2_mixer().read(config, place);
  return both;
}

void ParallelSpec::lower(lowering::Step& s) const {
  using namespace lowering;
  const int entry = s.last;
  attention->lower(s);
  const int attended = s.last;
  s.last = entry;
  recurrence->lower(s);
  s.join = attended;
  s.row("mixers_add"_node, RowwiseKind::add, s.tokens, s.hidden);
}

}  // namespace

MixerKind parallel_mixer() {
  return {.words = kParallelWords, .meant = meant_parallel, .read = read_parallel, .fresh = fresh_mixer<ParallelSpec>};
}

}  // namespace plumbline
