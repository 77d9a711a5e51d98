#include "model/stacks/cublas/clusters.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/stacks/cublas/xmma.hpp"

namespace plumbline::cublas {
namespace {

/// By size, larger ones first.
constexpr std::array<ClusterShape, 7> kShapes{{{2, 4}, {4, 2}, {1, 4}, {4, 1}, {2, 2}, {1, 2}, {2, 1}}};

/// Tiles with those that only fill clusters; 0 where a cluster is mostly padding.
double padded_tiles(const TilesToShare& t, const ClusterShape& shape) {
  constexpr double kMostPadding = 4.0 / 3, kPair = 2;
  const double rows = padded(t.rows, shape.rows), cols = padded(t.cols, shape.cols);
  if ((shape.rows > 1 && rows >= 2 * t.rows) || (shape.cols > 1 && cols >= 2 * t.cols)) return 0;
  return shape.size() > kPair && rows * cols > kMostPadding * t.rows * t.cols ? 0 : rows * cols;
}

double asked(const TilesToShare& t, const ClusterShape& shape) { return t.a / shape.cols + t.w / shape.rows; }

}  // namespace

double padded(double tiles, double cluster) { return cluster * std::ceil(tiles / cluster); }

ClusterShape cluster_of(const TilesToShare& t, double sm_count) {
  const double turns = std::ceil(t.rows * t.cols * t.times / sm_count);
  ClusterShape best;
  double least = 0;
  for (const ClusterShape& shape : kShapes) {
    if (shape.size() < best.size()) break;
    const double tiles = padded_tiles(t, shape);
    if (tiles <= 0 || std::ceil(tiles * t.times / ctas_in_clusters(shape.size(), sm_count)) > turns) continue;
    if (best.size() > 1 && (tiles > least || (tiles >= least && asked(t, shape) >= asked(t, best)))) continue;
    best = shape;
    least = tiles;
  }
  return best;
}

}  // namespace plumbline::cublas
