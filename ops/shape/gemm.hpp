#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// y[M,N] = x[M,K] W[N,K]^T, `batch` independent copies of all three.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  Precision precision;
  bool bias = false;
  bool operator==(const Gemm&) const = default;
  static const Facts<Gemm>& facts();
};

}  // namespace plumbline
