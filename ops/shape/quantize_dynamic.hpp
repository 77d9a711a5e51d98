#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// Rounds rows x cols values to fp8 by scales that it finds itself: one for all of them (`block` 0), one a row (1), one for
/// each `block` columns of a row (128). The scales are fp32.
struct QuantizeDynamic {
  std::int64_t rows = 0, cols = 0, block = 0;
  DType dtype = DType::bf16;
  bool operator==(const QuantizeDynamic&) const = default;
  static const Facts<QuantizeDynamic>& facts();
  /// Number of scales.
  double scales() const;
};

}  // namespace plumbline
