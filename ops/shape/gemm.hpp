#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ops/shape/shape.hpp"

namespace plumbline {

/// How the weights lie: rows of K elements, one an output (as PyTorch's Linear keeps them; "TN" of column-major BLAS), or
/// rows of N ("NN"); km: so, and the inputs in rows of M, as both lie for the gradient of weights ("NT").
enum class WeightLayout : std::uint8_t { nk, kn, km };
inline constexpr std::array<std::string_view, 3> kWeightLayouts{"nk", "kn", "km"};

/// y[M,N] = x[M,K] W, W[N,K]^T or W[K,N], or x[K,M]^T W[K,N], `batch` independent copies of all three.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  Precision precision;
  bool bias = false;
  WeightLayout layout = WeightLayout::nk;
  bool accumulate = false;  ///< the product is added to what y holds, which is read
  /// Operands of 8 bits and their scales: one each (0), one a row of x and a row of W (1), one for each 32 columns of a row of
  /// either (32, mxfp8), one for each 128 columns of a row of x and each 128 x 128 of W (128).
  std::int64_t block = 0;
  bool operator==(const Gemm&) const = default;
  static const Facts<Gemm>& facts();
};

}  // namespace plumbline
