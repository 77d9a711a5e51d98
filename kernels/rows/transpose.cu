// y[cols, rows] = x[rows, cols]^T through tiles in shared memory (transpose.cuh).
//
// What matters is a long run in each result row that is being written, at power-of-two pitches most of all.
// Variants and their figures: docs/lab/transpose.md.
#include "kernels/rows/transpose.cuh"

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/launch.hpp"
#include "kernels/rows/flat.cuh"

namespace plumbline {
namespace {

using device::bf16;

template <class T, bool kVectorIn, bool kSectorOut>
void launch(const Rowwise& s, const bf16* x, bf16* y, cudaStream_t stream) {
  const device::TransposeShape tiles = device::transpose_shape<T>(s.rows, s.cols);
  const std::int64_t ctas = std::int64_t{tiles.row_tiles} * tiles.col_tiles;
  if (ctas > 0x7fffffff) throw NotModelled("transpose_copy: too many tiles for one launch");
  device::transpose<T, kVectorIn, kSectorOut><<<static_cast<unsigned>(ctas), T::kThreads, 0, stream>>>(x, y, tiles);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

template <class T>
KernelPlan plan(const Rowwise& s) {
  const device::TransposeShape tiles = device::transpose_shape<T>(s.rows, s.cols);
  KernelPlan p;
  p.ctas = std::int64_t{tiles.row_tiles} * tiles.col_tiles;
  p.threads = T::kThreads;
  return p;
}

}  // namespace

KernelPlan transpose_plan(const Rowwise& s) {
  const bool whole = device::whole_in(s.cols) && device::whole_out(s.rows);
  return whole ? plan<device::WholeTile>(s) : plan<device::OddTile>(s);
}

void launch_transpose(const Rowwise& s, const void* from, void* to, StreamHandle handle) {
  auto* stream = static_cast<cudaStream_t>(handle);
  const auto* x = static_cast<const bf16*>(from);
  auto* y = static_cast<bf16*>(to);
  const bool in = device::whole_in(s.cols), out = device::whole_out(s.rows);
  if (in && out) return launch<device::WholeTile, true, true>(s, x, y, stream);
  if (in) return launch<device::OddTile, true, false>(s, x, y, stream);
  if (out) return launch<device::OddTile, false, true>(s, x, y, stream);
  launch<device::OddTile, false, false>(s, x, y, stream);
}

}  // namespace plumbline
