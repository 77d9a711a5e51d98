#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// rows random rows of width cols gathered from a table.
struct Embedding {
  std::int64_t rows = 0, cols = 0;
  DType dtype = DType::bf16;
  bool operator==(const Embedding&) const = default;
  static const Facts<Embedding>& facts();
};

}  // namespace plumbline
