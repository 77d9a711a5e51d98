#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// Depthwise causal convolution along time, `width` taps, over channels.
struct CausalConv {
  std::int64_t batch = 0, seq = 0, channels = 0, width = 0;
  DType dtype = DType::bf16;
  bool operator==(const CausalConv&) const = default;
  static const Facts<CausalConv>& facts();
};

}  // namespace plumbline
