// Mamba (arXiv:2312.00752): a state of its own for every channel.
#pragma once

#include <cstdint>

#include "ops/mixer/mixer.hpp"

namespace plumbline {

struct Mamba1Spec final : MixerOf<Mamba1Spec> {
  std::int64_t inner = 0;  ///< channels
  std::int64_t state = 0, conv = 0, dt_rank = 0;
  bool inner_norms = false;  ///< RMSNorms over the step, B and C streams (Jamba)
  DType state_dtype = DType::fp32;
  bool bias = false;  ///< of the in and out projections
  bool conv_bias = true;

  bool operator==(const Mamba1Spec&) const = default;
  std::string kind() const override { return "mamba1"; }
  std::string_view block() const override { return "mamba1"; }
  void sizes(MixerSizes& to) override;
  ParamCount params(std::int64_t hidden) const override;
  Bytes cache(const CacheQuery& query) const override;
  double stored(const MixerLoad& load) const override;
  double live(const MixerLoad& load) const override;
  SegmentNames segment() const override;
  void lower(lowering::Step& step) const override;
};

}  // namespace plumbline
