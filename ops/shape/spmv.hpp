#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// CSR matrix (32-bit indices) times a dense vector.
struct Spmv {
  std::int64_t rows = 0, cols = 0, nnz = 0;
  DType dtype = DType::fp32;
  bool operator==(const Spmv&) const = default;
  static const Facts<Spmv>& facts();
};

}  // namespace plumbline
