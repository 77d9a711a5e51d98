// The operators again, on the CPU in fp64, as plainly as their definitions (ops/shape/shapes.hpp): what kernels are
// checked against before they are timed.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/shape/shapes.hpp"

namespace plumbline {

using Values = std::vector<double>;

/// Inputs in the order of RowwiseBuffers; empty where the operator has none.
struct RowwiseInputs {
  Values x, second, weight, bias;
};
struct RowwiseResult {
  Values y;      ///< argmax: indices; quantize: x / scale before it is rounded to e4m3
  Values sum;    ///< residual: x + second, rounded to the stored type's precision, as the norm sees it
  Values scale;  ///< quantize: one a row
};

/// The nearest bf16 (ties to even), as a double.
double round_to_bf16(double value);
/// The same to fp16 (ties to even; beyond 65504 infinity), and to either.
double round_to_fp16(double value);
double round_to(DType type, double value);
/// The number that fp16 bits stand for.
double fp16_value(std::uint16_t bits);

RowwiseResult reference_rowwise(const Rowwise& shape, const RowwiseInputs& in);
Values reference_rope(const Rope& shape, const Values& x, const std::vector<std::int32_t>& positions,
                      const std::vector<float>& inverse_frequency);
Values reference_embedding(const Embedding& shape, const Values& table, const std::vector<std::int32_t>& ids);
double reference_sum_all(const Values& x);
Values reference_cumsum(const Values& x);

/// [rows, k] each, largest first, the lower index of equals first.
struct TopKResult {
  Values values, indices;
};
TopKResult reference_topk(const TopK& shape, const Values& x);
TopKResult reference_softmax_topk(const SoftmaxTopK& shape, const Values& x);

/// The number that e4m3 bits stand for (4 exponent bits of bias 7, no infinity, 0x7f NaN).
double e4m3_value(std::uint8_t bits);
/// The distance between neighbours in e4m3 at this magnitude.
double e4m3_spacing(double value);

}  // namespace plumbline
