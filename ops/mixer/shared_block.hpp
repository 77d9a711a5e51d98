// The transformer block that Zamba's hybrid layers share: attention over the hidden state beside the embedding, a gated
// feed-forward part, and a projection of each layer's own in front of its Mamba mixer.
#pragma once

#include <cstdint>

#include "ops/config/config.hpp"
#include "ops/mixer/attention.hpp"

namespace plumbline {

/// Sources: Zamba (arXiv 2405.16712), Zamba2 (arXiv 2411.15242), modeling_zamba2.py of Hugging Face transformers 5.17.
struct SharedBlockSpec final : MixerOf<SharedBlockSpec> {
  AttentionSpec attention;  ///< reads `wide`, writes the hidden width
  std::int64_t wide = 0;    ///< hidden state and embedding side by side
  std::int64_t ffn_width = 0;
  bool ffn_bias = false;
  std::int64_t adapter = 0;            ///< rank of a layer's own adapter of the feed-forward part (0: none)
  std::int64_t attention_adapter = 0;  ///< and of each of queries, keys, values

  bool operator==(const SharedBlockSpec&) const = default;
  std::string kind() const override { return "shared " + attention.kind() + " + geglu"; }
  std::string_view block() const override { return "shared_block"; }
  void sizes(MixerSizes& to) override;
  /// What a layer has of its own: the projection and the adapters.
  ParamCount params(std::int64_t hidden) const override;
  /// What all layers share, once.
  ParamCount shared_params(std::int64_t hidden) const;
  double kv_elements() const override { return attention.kv_elements(); }
  Bytes cache(const CacheQuery& query) const override { return attention.cache(query); }
  double stored(const MixerLoad& load) const override;
  double live(const MixerLoad& load) const override;
  Bytes partials(double sequences, std::int64_t tensor) const override { return attention.partials(sequences, tensor); }
  SegmentNames segment() const override { return {"shared_block", "shared_block"}; }
  std::int64_t split_heads() const override { return attention.q_heads; }
  void lower(lowering::Step& step) const override;
};

SharedBlockSpec read_shared_block(const LlmConfig& config, std::int64_t hidden);

}  // namespace plumbline
