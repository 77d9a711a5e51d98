// From shape and plan to a launch of one compiled tile: tensor maps, the order of the work, the grid.
#pragma once

#include <cstdint>

#include "kernels/gemm.hpp"
#include "kernels/gemm_sm90.cuh"

namespace plumbline::sm90 {

using GemmKernel = void (*)(CUtensorMap, CUtensorMap, CUtensorMap, device::sm90::GemmWork);

/// A compiled tile as the host sees it.
struct GemmEntry {
  int rows = 0, cols = 0, stages = 0, cluster = 1, ctas_per_sm = 1, threads = 0, shared_bytes = 0, step_elements = 0;
  GemmKernel kernel = nullptr;
};
template <class Tile>
constexpr GemmEntry gemm_entry() {
  return {Tile::kRows,    Tile::kCols,        Tile::kStages,       Tile::kCluster,          Tile::kCtasPerSm,
          Tile::kThreads, Tile::kSharedBytes, Tile::kStepElements, &device::sm90::gemm<Tile>};
}

struct GemmCut {
  bool swapped = false;
  std::int64_t splits = 1;
};

/// Tiles of the cut, whole clusters: what partials and counters are kept for.
std::int64_t gemm_tiles(const GemmEntry& entry, const Gemm& shape, const GemmCut& cut);
/// Whether there are counters for that many tiles.
bool gemm_can_split(const GemmEntry& entry, const Gemm& shape, const GemmCut& cut);
void launch_gemm_entry(const GemmEntry& entry, const Gemm& shape, const GemmCut& cut, const GemmBuffers& buffers,
                       StreamHandle stream);

}  // namespace plumbline::sm90
