// Launchers of our CUDA kernels, in plain C++: shapes and device pointers in, one launch out.
//
// Every pointer is device memory aligned to 16 bytes. Nothing here allocates or synchronises; a launcher throws
// DeviceError when the launch is refused and NotModelled for a shape or type that has no kernel. All maths is fp32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/plans.hpp"
#include "ops/shapes.hpp"

namespace plumbline {

/// A cudaStream_t; nullptr is the default stream.
using StreamHandle = void*;

/// What a row-wise launch reads and writes, bf16 unless said. Unused members stay null.
struct RowwiseBuffers {
  const void* x = nullptr;       ///< [rows, cols]; swiglu: [rows, 2 cols], gate then up
  const void* second = nullptr;  ///< add: the other summand; residual: the stream that x is added to
  const void* weight = nullptr;  ///< norms: gamma [cols]
  const void* bias = nullptr;    ///< layernorm: beta [cols]
  void* y = nullptr;             ///< [rows, cols]; transpose_copy [cols, rows]; sum_rows [rows]; argmax int32 [rows]
  void* sum = nullptr;           ///< residual: x + second [rows, cols]
};

inline constexpr float kNormEpsilon = 1e-5F;

/// How the launcher cuts this shape (registers are not filled in).
KernelPlan rowwise_plan(const Rowwise& shape);

/// layernorm, rmsnorm (with or without residual), softmax, sum_rows, argmax (lowest index of the largest), silu, gelu
/// (erf), add, copy, swiglu, transpose_copy; bf16.
void launch_rowwise(const Rowwise& shape, const RowwiseBuffers& buffers, StreamHandle stream);

/// Rotates x[tokens, heads, D] in place, pairs (i, i + D/2), by position * inverse_frequency[i], the angle rounded to
/// fp32 as the frameworks do. D even.
void launch_rope(const Rope& shape, void* x, const std::int32_t* positions, const float* inverse_frequency,
                 StreamHandle stream);

/// y[i, :] = table[ids[i], :].
void launch_embedding(const Embedding& shape, const void* table, const std::int32_t* ids, void* y, StreamHandle stream);

/// y[0] (fp32) = the sum of x[n] (bf16), always added in the same order. `scratch` holds sum_all_scratch_bytes(),
/// zeroed once before its first use; launches that share it must not overlap.
void launch_sum_all(const Scan& shape, const void* x, float* y, void* scratch, StreamHandle stream);
std::size_t sum_all_scratch_bytes();

}  // namespace plumbline
