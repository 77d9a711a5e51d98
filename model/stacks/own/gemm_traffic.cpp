#include "model/stacks/own/gemm_traffic.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline::own {
namespace {

/// Share that L2 still holds when `passed` bytes went through it in between.
double held(double passed, double l2) {
  const double left = std::clamp(2 - passed / l2, 0.0, 1.0);
  return left * left;
}

}  // namespace

double walked_bytes(const GemmWalk& w, double l2, double copies) {
  const double rows = w.row_tiles * w.row_bytes, cols = w.col_tiles * w.col_bytes;
  const double once = rows + cols, tiles = w.row_tiles * w.col_tiles;
  const double turns = std::ceil(tiles / w.at_once);
  if (turns <= 1) return once;
  const double height = std::min(w.band, w.row_tiles), bands = std::ceil(w.row_tiles / height);
  // Ends of turns within a band: the rest of it needs the band's rows again, of the column that was begun the rest as well.
  const double ends = turns - (std::fmod(height * w.col_tiles, w.at_once) == 0 ? bands : 1);
  const double again = std::max(0.0, ends) * height * (1 - 1 / w.col_tiles);
  const double begun = std::fmod(w.at_once, height) == 0 ? 0 : std::max(0.0, ends) * (1 - 1 / height);
  const double sweeps = std::min(bands, turns);
  const double swept = rows + sweeps * cols;
  const double by_turns = std::max(
      swept, rows + again * w.row_bytes + std::min(bands * w.col_tiles + begun, turns * w.col_tiles) * w.col_bytes);
  const double turn_passes = copies * by_turns / turns + w.at_once * w.tile_bytes;
  const double band_passes = copies * (height * w.row_bytes + cols) + height * w.col_tiles * w.tile_bytes;
  return once + (swept - once) * (1 - held(band_passes, l2)) + (by_turns - swept) * (1 - held(turn_passes, l2));
}

}  // namespace plumbline::own
