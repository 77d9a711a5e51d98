// Launchers of our CUDA kernels, in plain C++: shapes and device pointers in, one launch out.
//
// Every pointer is device memory aligned to 16 bytes. Nothing here allocates or synchronises; a launcher throws
// DeviceError when the launch is refused and NotModelled for a shape or type that has no kernel. All maths is fp32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/plan/plans.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// A cudaStream_t; nullptr is the default stream.
using StreamHandle = void*;

/// What a row-wise launch reads and writes, of the shape's type unless said: bf16 or fp16. Unused members stay null.
struct RowwiseBuffers {
  const void* x = nullptr;       ///< [rows, cols]; swiglu: [rows, 2 cols], gate then up
  const void* second = nullptr;  ///< add: the other summand; residual: the stream that x is added to
  const void* weight = nullptr;  ///< norms: gamma [cols]
  const void* bias = nullptr;    ///< layernorm: beta [cols]
  void* y = nullptr;             ///< [rows, cols]; transpose_copy [cols, rows]; sum_rows [rows]; argmax int32 [rows]
  void* sum = nullptr;           ///< residual: x + second [rows, cols]
  float* scale = nullptr;        ///< quantize: [rows], x = y scale
};

inline constexpr float kNormEpsilon = 1e-5F;

/// The plan by which the launcher runs this shape (registers are not filled in).
KernelPlan rowwise_plan(const Rowwise& shape);

/// layernorm, rmsnorm (with or without residual), softmax, sum_rows, argmax (lowest index of the largest; a NaN is
/// none), activations (gelu by erf), add, copy, swiglu, transpose_copy; bf16 or fp16. quantize: either to e4m3, scale = max |row| / 448.
/// Rows of operators that need them whole have up to 512 Ki columns.
void launch_rowwise(const Rowwise& shape, const RowwiseBuffers& buffers, StreamHandle stream);

/// Rotates x[tokens, heads, D] in place, pairs (i, i + D/2), by position * inverse_frequency[i], the angle rounded to
/// fp32 as the frameworks do. D even.
void launch_rope(const Rope& shape, void* x, const std::int32_t* positions, const float* inverse_frequency,
                 StreamHandle stream);

KernelPlan rope_plan(const Rope& shape);

/// y[i, :] = table[ids[i], :].
void launch_embedding(const Embedding& shape, const void* table, const std::int32_t* ids, void* y, StreamHandle stream);
KernelPlan embedding_plan(const Embedding& shape);

/// values [rows, k] (bf16) and indices [rows, k] of the k <= 64 largest of each row of x [rows, cols], largest first,
/// the lower index of equals first. NaNs are none.
KernelPlan topk_plan(const TopK& shape);
void launch_topk(const TopK& shape, const void* x, void* values, std::int32_t* indices, StreamHandle stream);
/// The same of softmax(row), in one pass.
KernelPlan softmax_topk_plan(const SoftmaxTopK& shape);
void launch_softmax_topk(const SoftmaxTopK& shape, const void* x, void* values, std::int32_t* indices,
                         StreamHandle stream);

/// The plans of launch_cumsum and launch_sum_all.
KernelPlan scan_plan(const Scan& shape);

/// y[0] (fp32) = the sum of x[n] (bf16 or fp32), always added in the same order. `scratch` holds
/// sum_all_scratch_bytes(), zeroed once before its first use; launches that share it must not overlap.
void launch_sum_all(const Scan& shape, const void* x, float* y, void* scratch, StreamHandle stream);
std::size_t sum_all_scratch_bytes();

/// y[i] = x[0] + ... + x[i], in x's type (bf16 or fp32), added in fp32. `workspace` holds cumsum_workspace_bytes(),
/// zeroed once before its first use and then used for this shape alone; launches that share it must not overlap.
void launch_cumsum(const Scan& shape, const void* x, void* y, void* workspace, StreamHandle stream);
std::size_t cumsum_workspace_bytes(const Scan& shape);

}  // namespace plumbline
