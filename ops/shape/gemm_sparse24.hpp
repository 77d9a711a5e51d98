#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// As Gemm, with W 2:4 sparse (half the values, 2 bits of metadata a kept value).
struct GemmSparse24 {
  std::int64_t m = 0, n = 0, k = 0;
  Precision precision;
  bool bias = false;
  bool operator==(const GemmSparse24&) const = default;
  static const Facts<GemmSparse24>& facts();
};

}  // namespace plumbline
