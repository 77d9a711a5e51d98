#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// The k largest probabilities of softmax(row) for each row, values and indices (int32): what sampling needs of logits.
struct SoftmaxTopK {
  std::int64_t rows = 0, cols = 0, k = 0;
  DType dtype = DType::bf16;
  bool operator==(const SoftmaxTopK&) const = default;
  static const Facts<SoftmaxTopK>& facts();
};

}  // namespace plumbline
