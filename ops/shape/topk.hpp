#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// The k largest of each row, values and indices (int32).
struct TopK {
  std::int64_t rows = 0, cols = 0, k = 0;
  DType dtype = DType::bf16;
  bool operator==(const TopK&) const = default;
  static const Facts<TopK>& facts();
};

}  // namespace plumbline
