// The operators again, on the CPU in fp64, as plainly as their definitions (ops/shapes.hpp): what kernels are checked
// against before they are timed.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/shapes.hpp"

namespace plumbline {

using Values = std::vector<double>;

/// Inputs in the order of RowwiseBuffers; empty where the operator has none.
struct RowwiseInputs {
  Values x, second, weight, bias;
};
struct RowwiseResult {
  Values y;    ///< argmax: indices
  Values sum;  ///< residual: x + second, rounded to the stored type's precision, as the norm sees it
};

/// The nearest bf16 (ties to even), as a double.
double round_to_bf16(double value);

RowwiseResult reference_rowwise(const Rowwise& shape, const RowwiseInputs& in);
Values reference_rope(const Rope& shape, const Values& x, const std::vector<std::int32_t>& positions,
                      const std::vector<float>& inverse_frequency);
Values reference_embedding(const Embedding& shape, const Values& table, const std::vector<std::int32_t>& ids);
double reference_sum_all(const Values& x);

}  // namespace plumbline
