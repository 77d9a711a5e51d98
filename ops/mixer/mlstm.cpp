// The mLSTM of xLSTM: a matrix memory a head with exponential input and forget gates, an output gate, a norm a head.
//
// Source: xLSTM (arXiv 2405.04517, section 2.3; 2503.13427 for the 7B model) and modeling_xlstm.py of Hugging Face
// transformers 5.17. Memory a head: key width x value width and a vector of the key width; updated as Mamba-2's state with
// keys of their own a head.
#include <array>

#include "ops/as_double.hpp"
#include "ops/mixer/recurrent.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

struct MlstmSpec final : MixerOf<MlstmSpec> {
  std::int64_t heads = 0, key_dim = 0, value_dim = 0;  ///< widths a head
  bool bias = false;                                   ///< of the projections; the gates always have theirs
  DType state_dtype = DType::fp32;

  std::int64_t keys() const { return heads * key_dim; }
  std::int64_t values() const { return heads * value_dim; }
  StateWidths widths() const { return {d(values()), d(key_dim), 0, 0, state_dtype}; }
  bool operator==(const MlstmSpec&) const = default;
  std::string kind() const override { return "mlstm"; }
  std::string_view block() const override { return "mlstm"; }
  void sizes(MixerSizes& to) override {
    to.whole("heads", heads);
    to.whole("key_dim", key_dim);
    to.whole("value_dim", value_dim);
    to.flag("bias", bias);
    to.type("state_dtype", state_dtype);
  }
  ParamCount params(std::int64_t hidden) const override;
  Bytes cache(const CacheQuery& query) const override {
    return state_cache(widths(), query) +
           storage(state_dtype, d(heads) * (d(key_dim) + 1.0)) / static_cast<double>(query.tensor);
  }
  double stored(const MixerLoad& load) const override { return stored_recurrence(widths(), 2 * d(keys()), load); }
  double live(const MixerLoad& load) const override { return live_recurrence(widths(), load); }
  SegmentNames segment() const override { return kRecurrentSegment; }
  std::int64_t split_heads() const override { return heads; }
  void lower(lowering::Step& step) const override;
};

constexpr std::array kMlstmWords{kFullAttention};

bool meant_mlstm(const LlmConfig& config) { return config.is("xlstm"); }

/// factor x hidden, shared evenly by the heads.
std::int64_t head_share(const LlmConfig& config, const char* key, double fallback, std::int64_t hidden,
                        std::int64_t heads) {
  const auto factor = config.find({key});
  const double width = (factor ? factor->as_number() : fallback) * static_cast<double>(hidden);
  if (!(width >= static_cast<double>(heads) && width <= static_cast<double>(LlmConfig::kLargestDim))) {
    config.inner().fail(std::string("'") + key + "' makes no width that " + std::to_string(heads) + " heads share");
  }
  const auto whole = static_cast<std::int64_t>(width);
  if (whole % heads != 0)
    config.inner().fail(std::string("'") + key + "' makes a width that the heads don't share evenly");
  return whole / heads;
}

LayerMixer read_mlstm(const LlmConfig& config, const LayerPlace& place) {
  MlstmSpec r;
  r.heads = config.dim({"num_heads", "num_attention_heads"}, "heads");
  r.key_dim = head_share(config, "qk_dim_factor", 0.5, place.hidden, r.heads);
  r.value_dim = head_share(config, "v_dim_factor", 1.0, place.hidden, r.heads);
  r.bias = config.flag_or({"use_bias"}, false);
  if (config.dim_or({"embedding_dim"}, place.hidden) != place.hidden) {
    config.find({"embedding_dim"})->fail("expected the hidden width, " + std::to_string(place.hidden));
  }
  config.find({"max_inference_chunksize"});
  config.flag_or({"return_last_states"}, true);
  config.flag_or({"norm_reduction_force_float32"}, true);
  return r;
}

/// q, k, v, output gate and output projection; input and forget gates of one number a head with bias; the norm.
ParamCount MlstmSpec::params(std::int64_t hidden) const {
  const double h = d(hidden), k = d(keys()), v = d(values()), n = d(heads);
  ParamCount count{h * (2.0 * k + 2.0 * v + 2.0 * n) + v * h, 2.0 * n + v};
  if (bias) count.vectors += 2.0 * k + 2.0 * v + h;
  return count;
}

void MlstmSpec::lower(lowering::Step& s) const {
  using namespace lowering;
  const std::int64_t local = s.share(heads), key = local * key_dim, value = local * value_dim;
  s.quantize("in_quantize"_node, s.tokens, s.hidden, s.types.linear);
  s.linear("in_proj"_node, s.tokens, 2 * key + 2 * value, s.hidden, bias);
  s.linear("gates_proj"_node, s.tokens, 2 * local, s.hidden, true);
  s.add("recurrence"_node, Recurrence{RecurrentKind::mamba2, s.batch, s.q_len, local, value_dim, key_dim, local,
                                      s.types.base, state_dtype});
  gated_norm(s, s.tokens * local, value_dim, true);
  out_projection(s, value, bias);
}

}  // namespace

MixerKind mlstm_mixer() {
  return {.words = kMlstmWords, .meant = meant_mlstm, .read = read_mlstm, .fresh = fresh_mixer<MlstmSpec>};
}

}  // namespace plumbline
