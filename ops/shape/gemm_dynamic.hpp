#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// y[M,N] = x[M,K] W[N,K]^T as one call that is handed x in the type of y and rounds it to the type of the product first, by
/// scales that it finds itself: one for all of x (`block` 0), one a row (1), one for each `block` columns of a row (128; the
/// weights then have one for each 128 x 128); of nvfp4 one for each 16 values, beside one of all that is known.
struct GemmDynamic {
  std::int64_t m = 0, n = 0, k = 0, block = 0;
  Precision precision;
  bool operator==(const GemmDynamic&) const = default;
  static const Facts<GemmDynamic>& facts();
};

}  // namespace plumbline
