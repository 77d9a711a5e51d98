#include "model/engine/tensor_path.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline {

std::int64_t TensorPath::threads(double tile_m) const {
  if (kind == Kind::mma_sync) return tile_m >= 128 ? 256 : 128;
  return tile_m >= 128 ? 384 : 256;  // producer warpgroup + one consumer for each 64 (at most 128) rows
}

double TensorPath::operand_reads(double rows, double cols, double row_bytes, double col_bytes) const {
  constexpr double kSide = 64;
  switch (kind) {
    case Kind::mma_sync: return row_bytes * std::ceil(cols / kSide) + col_bytes * std::ceil(rows / kSide);
    case Kind::wgmma: return row_bytes + col_bytes * std::ceil(rows / kSide);
    case Kind::tcgen05: return row_bytes + col_bytes;
  }
  return 0;
}

TensorPath tensor_path(const Gpu& gpu) {
  TensorPath path;
  path.most_stages = 4;  // cp.async rings of the libraries are 3-5 deep; TMA rings go deeper
  const std::string& cc = gpu.compute_capability;
  path.async_copy = cc.rfind("8.", 0) == 0 || cc.rfind("12.", 0) == 0;
  if (gpu.compute_capability == "9.0") {
    path.kind = TensorPath::Kind::wgmma;
    path.most_stages = 16;
    path.multicast = true;
  } else if (gpu.compute_capability == "10.0" || gpu.compute_capability == "10.3") {
    path.kind = TensorPath::Kind::tcgen05;
    path.most_stages = 16;
    path.multicast = true;
  }
  return path;
}

}  // namespace plumbline
