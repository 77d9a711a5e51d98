#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// The gradient of an Embedding: table[ids[i], :] += dy[i, :] for `rows` rows of width `cols`, the table's sums in fp32.
/// `table`: its rows, of which the ids are drawn evenly, so that some meet in the same one; 0: all ids differ.
struct EmbeddingBackward {
  std::int64_t rows = 0, cols = 0, table = 0;
  DType dtype = DType::bf16;  ///< of dy
  bool operator==(const EmbeddingBackward&) const = default;
  static const Facts<EmbeddingBackward>& facts();
};

/// Rows of the table that are added to, on average: table (1 - (1 - 1 / table)^rows).
double rows_touched(const EmbeddingBackward& shape);

}  // namespace plumbline
