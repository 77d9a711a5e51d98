// What the files that count our row-wise kernels share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>

#include "model/stacks/own/row_kernels.hpp"
#include "ops/plan/row_menu.hpp"

namespace plumbline::row_kernels {

using Counts = KernelCounts;

inline double to_double(std::int64_t n) { return static_cast<double>(n); }
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline double log2_up(double n) { return n > 1 ? std::ceil(std::log2(n)) : 0; }

/// Share of the places between vectors at which rows that are not whole vectors begin or end within one.
inline double unaligned_share(std::int64_t cols) {
  return 1 - to_double(std::gcd(cols, kRowVector)) / to_double(kRowVector);
}

/// The counts, and the GPU on which SMs are shared and some grids are sized.
struct On {
  const Counts& counts;
  const GpuNumbers& gpu;
};

/// What the compiler left: CTAs that fit an SM, and the bytes that spilled registers send to L2 and on to DRAM.
void set_resources(RowKernel& kernel, const KernelResources& built, const On& on);

// Kernels that hold rows in registers, as tiles of the menus (row_tiles.cpp).

/// Norms, softmax, sums, argmax and quantize of rows; `chosen` has an entry.
RowKernel row_tile_kernel(const On& on, const Rowwise& shape, const RowChoice& chosen);
/// The k largest of each row, `softmax`: of its softmax.
RowKernel selection_kernel(const On& on, std::int64_t rows, std::int64_t cols, std::int64_t k, bool softmax);
/// softmax_backward and the fused pair of the training attention chain.
RowKernel chain_kernel(const On& on, const Rowwise& shape);

// Gradients, and what else training runs (row_training.cpp).

/// Of norms, swiglu, a loss and the sums of columns; none: of another kind.
std::optional<RowKernel> training_kernel(const On& on, const Rowwise& shape);
RowKernel scatter_kernel(const On& on, const EmbeddingBackward& shape);

/// Element by element, a vector a thread.
RowKernel flat_kernel(double vectors, const Counts::Flat& counts, const On& on);
/// Waves, of which the last one begun is seen more of the fewer there are.
inline double with_begun(double waves, const Counts::Waves& c) {
  return waves + (std::ceil(waves) - waves) * std::min(c.begun_most, c.begun / waves);
}

}  // namespace plumbline::row_kernels
