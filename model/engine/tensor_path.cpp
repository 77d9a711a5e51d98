#include "model/engine/tensor_path.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline {

std::int64_t TensorPath::threads(double tile_m) const {
  if (kind == Kind::mma_sync) return tile_m >= 128 ? 256 : 128;
  return tile_m >= 128 ? 384 : 256;  // producer warpgroup + one consumer for each 64 (at most 128) rows
}

double TensorPath::operand_reads(double rows, double cols, double row_bytes, double col_bytes) const {
  constexpr double kSide = 64, kLanes = 128;
  switch (kind) {
    case Kind::mma_sync: return row_bytes * std::ceil(cols / kSide) + col_bytes * std::ceil(rows / kSide);
    case Kind::wgmma: return row_bytes + col_bytes * std::ceil(rows / kSide);
    case Kind::tcgen05: return row_bytes + col_bytes * std::ceil(rows / kLanes);
  }
  return 0;
}

TensorPath tensor_path(const Gpu& gpu) {
  TensorPath path;
  path.most_stages = 4;  // cp.async rings of the libraries are 3-5 deep; TMA rings go deeper
  path.async_copy = gpu.sm.async_copy == AsyncCopy::cp_async || gpu.sm.async_copy == AsyncCopy::tma;
  path.multicast = gpu.sm.async_copy == AsyncCopy::tma && gpu.clusters.sms > 0;
  switch (gpu.sm.matrix_unit) {
    case MatrixUnit::mma_sync:
    case MatrixUnit::mfma: return path;  // operands from registers, which every warp or wavefront loads for itself
    case MatrixUnit::wgmma: path.kind = TensorPath::Kind::wgmma; break;
    case MatrixUnit::tcgen05: path.kind = TensorPath::Kind::tcgen05; break;
  }
  path.most_stages = 16;
  return path;
}

}  // namespace plumbline
