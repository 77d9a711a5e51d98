// Tiles of vLLM's products of two operands in 8-bit floats with given scales: CUTLASS's, one for each range of sizes.
#pragma once

#include "model/stacks/common/gemm_tiles.hpp"

namespace plumbline::cutlass {

struct ScaledTile {
  gemm::Tile tile{};        ///< of one SM
  double step = 128;        ///< of K
  bool swapped = false;     ///< weights are on the row side
  double cluster_rows = 1;  ///< CTAs of a cluster along the tile's rows and columns
  double cluster_cols = 1;
  bool persistent = false;  ///< a CTA goes from tile to tile; else it has one
  bool in_turns = false;    ///< ... its two warpgroups in turns, one's results behind the other's products ("pingpong")
  bool paired = false;      ///< two SMs, neighbours along the rows, multiply their tiles as one
  double warp_rows = 64, warp_cols = 64;  ///< what a warp of mma.sync multiplies
  double stages = 0;                      ///< of kernels for cp.async; 0: as many as there is room for
};

/// As the library dispatches (vllm-project/vllm, csrc/libtorch_stable/quantization/w8a8/cutlass:
/// c3x/scaled_mm_sm90_fp8_dispatch.cuh, scaled_mm_sm100_fp8_dispatch.cuh, scaled_mm_sm120_fp8_dispatch.cuh,
/// scaled_mm_c2x_sm89_fp8_dispatch.cuh; Apache-2.0).
ScaledTile scaled_tile(const GemmTask& task, const Rates& rates);

}  // namespace plumbline::cutlass
