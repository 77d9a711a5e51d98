// Mamba-2 (arXiv:2405.21060): one decay a head, B and C shared by groups of heads.
#pragma once

#include <cstdint>

#include "ops/mixer/mixer.hpp"

namespace plumbline {

struct Mamba2Spec final : MixerOf<Mamba2Spec> {
  std::int64_t inner = 0;  ///< heads x head_dim
  std::int64_t heads = 0, head_dim = 0, state = 0, groups = 1, conv = 0;
  std::int64_t chunk = 256;  ///< tokens that a prompt's kernels take at a time
  DType state_dtype = DType::fp32;
  bool in_bias = false, out_bias = false;  ///< of the projections
  bool conv_bias = true;
  bool norm = true;  ///< the gate multiplies a norm of the output (else the output itself)

  bool operator==(const Mamba2Spec&) const = default;
  std::string kind() const override { return "mamba2"; }
  std::string_view block() const override { return "mamba2"; }
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
