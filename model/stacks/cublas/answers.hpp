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

/// To one in tf32 on Hopper with weights [N,K]. `tile`: its place in kTf32Tiles, and behind those (from kTilesOfHopper on) in
/// kSmallTf32Tiles; `cluster`: in kTf32Clusters. `swizzled`: tiles are not walked row by
/// row. `cuts`: the kernel may cut K ("segment_k_on").
struct TileAnswer {
  std::uint16_t m, n, k;
  std::uint8_t tile, cluster;
  bool swizzled, cuts;
};
inline constexpr int kTilesOfHopper = 8;

/// In fp32, on ordinary lanes. All were answered for one card: on those with fewer SMs the answer is that to a shape with
/// as many tiles an SM.
const LaneAnswer& nearest_lane_answer(double m, double n, double k, double sm_count);
/// The nearest first.
using TileAnswers = std::array<const TileAnswer*, 3>;
TileAnswers nearest_tile_answers(double m, double n, double k, double sm_count);

}  // namespace plumbline::cublas
