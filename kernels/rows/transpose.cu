// y[cols, rows] = x[rows, cols]^T through tiles in shared memory (transpose.cuh).
//
// Variants, H200, 2026-11-20, % of 4.8 TB/s for 8192^2, 65536 x 8192, 32768^2 (our copy: 87 to 89.5):
//   64 x 64 tiles of words, row by row of tiles: 69 to 76, 72, -     the version before
//   the same, elements instead of words out of shared memory: 69, 70, 70
//   64 x 128, bands of 32 tile rows: 77.2, 72.7, 76.8                128 x 64: 77.8, 74.5, 77.5
//   128 x 128 of 512 threads, bands of 16 tile rows: 80.2, 78.1, 82.2; of 64: 82.8, 82.9, 83.2
//   the same, whole columns of tiles: 82.8, 85.2, 85.9               this; 256 threads: 82.6, 84.9, 85.6
//   diagonal order within bands: no better than straight (70.4, 72.0, 72.3 where straight had 74.4, 74.2, 76.6)
// So what matters is long runs in each result row that is being written, at power-of-two pitches most of all.
#include "kernels/rows/transpose.cuh"

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/launch.hpp"
#include "kernels/rows/flat.cuh"

namespace plumbline {
namespace {

using device::bf16;

template <class T, bool kVectorIn, bool kSectorOut>
void launch(const Rowwise& s, const bf16* x, bf16* y, cudaStream_t stream) {
  const device::TransposeShape cut = device::cut_transpose<T>(s.rows, s.cols);
  const std::int64_t ctas = std::int64_t{cut.row_tiles} * cut.col_tiles;
  if (ctas > 0x7fffffff) throw NotModelled("transpose_copy: too many tiles for one launch");
  device::transpose<T, kVectorIn, kSectorOut><<<static_cast<unsigned>(ctas), T::kThreads, 0, stream>>>(x, y, cut);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

template <class T>
KernelPlan plan(const Rowwise& s) {
  const device::TransposeShape cut = device::cut_transpose<T>(s.rows, s.cols);
  KernelPlan p;
  p.ctas = std::int64_t{cut.row_tiles} * cut.col_tiles;
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
