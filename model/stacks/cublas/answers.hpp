// Which kernel cuBLAS takes. It asks tables that were trained on measurements, and what they say is often not the
// quickest (for a tenth of 3,473 products in fp32 17 % slower than the best by our prices): so no price finds it, and
// its own answer to the nearest shape that it was asked about is taken.
#pragma once

#include <array>
#include <cstdint>

namespace plumbline::cublas {

/// To a product in fp32. `tile`: its place in kLaneTiles. `in_place`: parts of K meet in the result, which a launch before
/// clears.
struct LaneAnswer {
  std::uint16_t m, n, k;
  std::uint8_t tile, parts;
  bool in_place;
};

/// To one in tf32 on Hopper. `tile`: its place in kTf32Tiles, behind those (from kTilesOfHopper on) in kSmallTf32Tiles, or
/// kOtherKernel; `cluster`: in kTf32Clusters. With weights [K,N] its sides are swapped: `m` is N, and rows of the tile and of the
/// cluster lie along N, as kernels' names have it. `swizzled`: tiles are not walked row by row. `cuts`: the kernel may cut K
/// ("segment_k_on").
struct TileAnswer {
  std::uint32_t m, n, k;
  std::uint8_t tile, cluster;
  bool swizzled, cuts;
};
inline constexpr int kTilesOfHopper = 8, kOtherKernel = 12;

/// How the operands of a product lie: weights [N,K]; weights [K,N]; these and x [K,M].
enum class Lying : std::uint8_t { along_k, w_across, both_across };

/// In fp32, on ordinary lanes. All were answered for one card: on those with fewer SMs the answer is that to a shape with
/// as many tiles an SM.
const LaneAnswer& nearest_lane_answer(double m, double n, double k, double sm_count);
/// The nearest first; with weights [N,K] of those with the tile that the most of the nearest have, others behind them.
using TileAnswers = std::array<const TileAnswer*, 3>;
TileAnswers nearest_tile_answers(Lying lying, double m, double n, double k, double sm_count);

}  // namespace plumbline::cublas
