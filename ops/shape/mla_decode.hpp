#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// Absorbed multi-head latent attention, one new token a sequence: every head reads the same S latents of width
/// Dc + Dr; scores over Dc + Dr, values over Dc.
struct MlaDecode {
  std::int64_t batch = 0, heads = 0, context = 0, latent = 0, rope = 0;
  DType dtype = DType::bf16, kv_dtype = DType::bf16;
  bool operator==(const MlaDecode&) const = default;
  static const Facts<MlaDecode>& facts();
};

}  // namespace plumbline
