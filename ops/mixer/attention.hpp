// Softmax attention over keys and values of their own: multi-head, grouped, multi-query, with windows or chunks.
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/mixer/mixer.hpp"

namespace plumbline {

class LlmConfig;

/// Widths per head.
struct AttentionSpec final : MixerOf<AttentionSpec> {
  std::int64_t q_heads = 0, kv_heads = 0;
  std::int64_t qk_dim = 0, v_dim = 0;  ///< both head_dim
  bool causal = true, rope = true, qkv_bias = false, out_bias = false, sinks = false;
  bool key_bias = true;      ///< false: of `qkv_bias` the keys have none (Whisper)
  bool output_gate = false;  ///< query projection twice as wide (Qwen3-Next)
  /// QK norm: 0 none, 1 per head (2 x head_dim parameters), 2 over all heads
  int qk_norm = 0;
  int qk_norm_vectors = 1;   ///< parameters an element of it: 2 with bias (LayerNorm), 0 without weights
  bool head_gates = false;   ///< the output is gated by one number a head, from a projection of its own (Laguna)
  bool output_norm = false;  ///< RMSNorm over all heads in front of the output projection (BitNet)
  /// Vectors of the head width that set what no operator shows: the lambdas of differential attention (DiffLlama, 4).
  std::int64_t head_vectors = 0;
  /// Keys and values come from the cache of an earlier layer (Gemma 3n, Gemma 4): no projections, nothing to keep.
  bool reads_other_cache = false;
  std::int64_t query_rank = 0;   ///< queries go through this width and a norm of it (Step-3); 0: directly
  bool value_mask = false;       ///< a projection of the values weighs the keys, one number a KV head (Doge)
  bool values_are_keys = false;  ///< one projection makes both (Gemma 4)
  std::int64_t window = 0;       ///< tokens a query sees at most; 0 = all
  bool chunked = false;          ///< the window is a fixed chunk (Llama-4), not sliding

  bool operator==(const AttentionSpec&) const = default;
  std::string kind() const override;
  std::string_view block() const override { return "gqa"; }
  void sizes(MixerSizes& to) override;
  ParamCount params(std::int64_t hidden) const override;
  double kv_elements() const override;
  Bytes cache(const CacheQuery& query) const override;
  double stored(const MixerLoad& load) const override;
  double live(const MixerLoad& load) const override;
  Bytes partials(double sequences, std::int64_t tensor) const override;
  SegmentNames segment() const override;
  std::int64_t split_heads() const override { return q_heads; }
  bool splits_context() const override { return !chunked; }
  void lower(lowering::Step& step) const override;
  /// `lower` in two halves, for layers whose attention reads another width than it writes (Step::hidden).
  void lower_inputs(lowering::Step& step) const;
  void lower_output(lowering::Step& step) const;
};

/// Queries of a decoder over keys and values of its encoder, which the step that runs the encoder projects once. A
/// layer's second mixer: `cache` counts the encoder's tokens.
struct CrossAttentionSpec final : MixerOf<CrossAttentionSpec> {
  AttentionSpec attention;

  CrossAttentionSpec() = default;
  explicit CrossAttentionSpec(const AttentionSpec& over) : attention(over) {}
  bool operator==(const CrossAttentionSpec&) const = default;
  std::string kind() const override { return "cross attention"; }
  std::string_view block() const override { return "cross_attention"; }
  void sizes(MixerSizes& to) override { attention.sizes(to); }
  ParamCount params(std::int64_t hidden) const override { return attention.params(hidden); }
  Bytes cache(const CacheQuery& query) const override { return attention.cache(query); }
  double stored(const MixerLoad& load) const override;
  double live(const MixerLoad& load) const override { return attention.live(load); }
  void lower(lowering::Step& step) const override;
};

/// Attention of a layer that sees everything; readers of other kinds begin with it.
AttentionSpec read_attention(const LlmConfig& config, std::int64_t hidden);
std::int64_t read_query_heads(const LlmConfig& config);
/// The window of sliding layers; 0 when the file switches it off or has none.
std::int64_t sliding_window(const LlmConfig& config);

}  // namespace plumbline
