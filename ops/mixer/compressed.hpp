// Attention over one shared stream of keys and values, a window of it whole and the rest pooled (DeepSeek-V4).
#pragma once

#include <cstdint>

#include "ops/mixer/indexer.hpp"
#include "ops/mixer/mixer.hpp"

namespace plumbline {

/// One head of `dim` is K and V at once, queries may have low rank, the output projection is in groups of low rank
/// (config keys o_groups, o_lora_rank).
struct CompressedSpec final : MixerOf<CompressedSpec> {
  std::int64_t heads = 0, kv_heads = 1, dim = 0;
  std::int64_t window = 0;  ///< tokens that are kept whole; 0 = all
  std::int64_t ratio = 0;   ///< tokens pooled to one beside the window; 0 = none
  std::int64_t q_lora_rank = 0, rope_dim = 0;
  std::int64_t out_groups = 0, out_lora_rank = 0;
  bool out_bias = false;
  Indexer index;
  bool whole = false;  ///< compressors, sinks and norms are counted (transformers' form of the file)

  /// Of values, and of gates: two windows' share where they overlap, as the sparse kind's do.
  std::int64_t compressor_width() const { return ratio == 0 ? 0 : (whole && index.heads > 0 ? 2 : 1) * dim; }

  bool operator==(const CompressedSpec&) const = default;
  std::string kind() const override;
  std::string_view block() const override { return "compressed_attention"; }
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
  void lower(lowering::Step& step) const override;
};

}  // namespace plumbline
