// How a GPU generation feeds its tensor units: which tile one instruction group covers and what it reads from shared
// memory for it.
#pragma once

#include "arch/gpu/gpu.hpp"

namespace plumbline {

struct TensorPath {
  enum class Kind { mma_sync, wgmma, tcgen05 };
  Kind kind = Kind::mma_sync;
  bool multicast = false;   ///< one L2 read can serve the CTAs of a cluster (TMA)
  bool async_copy = false;  ///< operands come by cp.async: mma.sync from sm_80 on
  double most_ctas = 2;     ///< co-resident CTAs that GEMM kernels of this generation are built for
  double most_stages = 16;  ///< deepest ring in use

  std::int64_t threads(double tile_m) const;

  /// Shared-memory bytes that the tensor instructions of one step read, given the step's bytes of the row operand
  /// (`rows` x K) and of the column operand. mma.sync: warps of 64 x 64 each fetch their own fragments, so the rows
  /// are read cols/64 times and the columns rows/64 times. wgmma: a warpgroup takes 64 rows against all columns.
  /// tcgen05: one instruction covers the tile (docs/sources.md: matrix products).
  double operand_reads(double rows, double cols, double row_bytes, double col_bytes) const;

  bool operator==(const TensorPath&) const = default;
};

TensorPath tensor_path(const Gpu& gpu);

}  // namespace plumbline
