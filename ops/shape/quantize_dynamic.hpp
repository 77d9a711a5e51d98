#pragma once

#include <array>
#include <string_view>

#include "ops/shape/shape.hpp"

namespace plumbline {

/// What one scale is of, as text has it, and the `block` that stands for it.
inline constexpr std::array<std::string_view, 3> kScalings{"tensor", "token", "block"};
inline constexpr std::array<std::int64_t, 3> kScalingBlocks{0, 1, 128};

/// Rounds rows x cols values to 8 bits (`output`) by scales that it finds itself: one for all of them (`block` 0), one
/// a row (1), one for each `block` columns of a row (128). The scales are fp32.
struct QuantizeDynamic {
  std::int64_t rows = 0, cols = 0, block = 0;
  DType dtype = DType::bf16, output = DType::fp8;
  bool operator==(const QuantizeDynamic&) const = default;
  static const Facts<QuantizeDynamic>& facts();
  /// Number of scales.
  double scales() const;
};

}  // namespace plumbline
