// The products of a trained model as a step's graph has them: what they are planned by, and what they are called where the graph
// is held against the launches (tests/validate/step/training_steps_test.cpp).
#pragma once

#include <cstdint>

#include "ops/shape/shapes.hpp"

namespace plumbline {

/// y[rows, out] = x[rows, in] W[out, in]^T, all in bf16.
inline Gemm forward_shape(std::int64_t rows, std::int64_t out, std::int64_t in) {
  Gemm s;
  s.m = rows;
  s.n = out;
  s.k = in;
  s.precision = *parse_precision("bf16");
  return s;
}

/// dX[rows, in] = dY[rows, out] W[out, in], which lies across.
inline Gemm input_gradient_shape(std::int64_t rows, std::int64_t out, std::int64_t in) {
  Gemm s = forward_shape(rows, in, out);
  s.layout = WeightLayout::kn;
  return s;
}

/// dW[out, in] += dY[rows, out]^T X[rows, in] in fp32: both lie across.
inline Gemm weight_gradient_shape(std::int64_t rows, std::int64_t out, std::int64_t in) {
  Gemm s = forward_shape(out, in, rows);
  s.layout = WeightLayout::km;
  s.precision.output = DType::fp32;
  s.accumulate = true;
  return s;
}

}  // namespace plumbline
