// Multi-head latent attention: keys and values of all heads come from one latent a token, which is what the cache keeps.
#pragma once

#include <cstdint>

#include "ops/mixer/indexer.hpp"
#include "ops/mixer/mixer.hpp"

namespace plumbline {

/// Source: DeepSeek-V2 paper (arXiv 2405.04434) section 2.1; the indexer is V3.2's.
struct MlaSpec final : MixerOf<MlaSpec> {
  std::int64_t heads = 0;
  std::int64_t q_lora_rank = 0, kv_lora_rank = 0;  ///< latents; 0: queries come from the hidden state
  std::int64_t nope_dim = 0, rope_dim = 0;         ///< a head's query and key, without and with rotation
  std::int64_t v_dim = 0;
  bool causal = true, qkv_bias = false, out_bias = false;
  Indexer index;
  bool gate = false;         ///< the output is gated element by element, from the hidden state (Hunyuan 4)
  bool latent_gate = false;  ///< or from the query's latents: normed and not, they make query and gate (A.X-K2)
  bool sinks = false;

  std::int64_t qk_dim() const { return nope_dim + rope_dim; }
  bool operator==(const MlaSpec&) const = default;
  std::string kind() const override;
  std::string_view block() const override { return index.topk > 0 ? "sparse_mla" : "mla"; }
  void sizes(MixerSizes& to) override;
  ParamCount params(std::int64_t hidden) const override;
  double kv_elements() const override;
  double index_elements() const override;
  Bytes cache(const CacheQuery& query) const override;
  double stored(const MixerLoad& load) const override;
  double live(const MixerLoad& load) const override;
  Bytes partials(double sequences, std::int64_t tensor) const override;
  SegmentNames segment() const override;
  std::int64_t split_heads() const override { return heads; }
  bool splits_context() const override { return index.heads == 0; }
  void lower(lowering::Step& step) const override;
};

}  // namespace plumbline
