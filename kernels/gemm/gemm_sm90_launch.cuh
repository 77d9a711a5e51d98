// From shape and plan to a launch of one compiled tile: tensor maps, the order of the work, the grid.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/gemm.hpp"
#include "kernels/gemm/gemm_sm90.cuh"

namespace plumbline::sm90 {

using GemmKernel = void (*)(device::sm90::GemmMaps, device::sm90::GemmWork);

/// A compiled tile as the host sees it.
struct GemmEntry {
  int rows = 0, cols = 0, stages = 0, cluster = 1, ctas_per_sm = 1, threads = 0, shared_bytes = 0, step_elements = 0,
      chunk = 0;
  bool rows_outside = false, cols_outside = false;  ///< operands that lie as [K, rows], [K, cols]
  bool floats = false;                              ///< the result is fp32
  GemmKernel kernel = nullptr;
};
template <class Tile>
constexpr GemmEntry gemm_entry() {
  return {Tile::kRows,
          Tile::kCols,
          Tile::kStages,
          Tile::kCluster,
          Tile::kCtasPerSm,
          Tile::kThreads,
          Tile::kSharedBytes,
          Tile::kStepElements,
          Tile::kChunk,
          Tile::kRowsOutside,
          Tile::kColsOutside,
          Tile::kFloats,
          &device::sm90::gemm<Tile>};
}

/// Tiles of products in fp16.
std::span<const GemmEntry> fp16_entries();
/// Tiles of the products of gradients: of inputs (the right operand [K, N]), of weights (both operands with K outside).
std::span<const GemmEntry> input_gradient_entries();
std::span<const GemmEntry> weight_gradient_entries();

/// `splits` > 1: so many CTAs share the steps of a tile. 0: only of the tiles that are left over behind whole waves, as
/// many as fit beside each other, so that the last wave is a short one.
struct GemmCut {
  bool swapped = false;
  std::int64_t splits = 1;
  bool clipped = false;  ///< as in GemmPlan
};

/// Whether there are counters for so many shared tiles.
bool gemm_can_share(const GemmEntry& entry, const Gemm& shape, const GemmCut& cut);
/// fp32 sums of parts of tiles; 0 where every CTA has whole tiles.
std::size_t gemm_partial_bytes(const GemmEntry& entry, const Gemm& shape, const GemmCut& cut);
void launch_gemm_entry(const GemmEntry& entry, const Gemm& shape, const GemmCut& cut, const GemmBuffers& buffers,
                       StreamHandle stream);

}  // namespace plumbline::sm90
