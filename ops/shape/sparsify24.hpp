#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// Prunes a weight [rows,cols] so that of each four values along either side two are left at most, and writes it compressed along
/// both: what forward products read and what gradients of inputs read, half of the values and two bits for the place of each,
/// and a bit a value that says which are left. (torch._sparse_semi_structured_tile.)
struct Sparsify24 {
  std::int64_t rows = 0, cols = 0;
  DType dtype = DType::bf16;
  bool operator==(const Sparsify24&) const = default;
  static const Facts<Sparsify24>& facts();
};

}  // namespace plumbline
