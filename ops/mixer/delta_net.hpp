// Gated DeltaNet (arXiv:2412.06464) as Qwen3-Next has it.
#pragma once

#include <cstdint>

#include "ops/mixer/mixer.hpp"

namespace plumbline {

struct DeltaNetSpec final : MixerOf<DeltaNetSpec> {
  std::int64_t heads = 0, head_dim = 0;  ///< of values
  std::int64_t key_heads = 0, key_dim = 0;
  std::int64_t conv = 0;
  DType state_dtype = DType::fp32;

  std::int64_t inner() const { return heads * head_dim; }

  bool operator==(const DeltaNetSpec&) const = default;
  std::string kind() const override { return "gated delta net"; }
  std::string_view block() const override { return "gated_delta_net"; }
  void sizes(MixerSizes& to) override;
  ParamCount params(std::int64_t hidden) const override;
  Bytes cache(const CacheQuery& query) const override;
  double stored(const MixerLoad& load) const override;
  double live(const MixerLoad& load) const override;
  SegmentNames segment() const override;
  std::int64_t split_heads() const override { return heads; }
  void lower(lowering::Step& step) const override;
};

}  // namespace plumbline
