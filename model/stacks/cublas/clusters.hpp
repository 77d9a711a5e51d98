// Which CTAs of cuBLAS's kernels of any tile ("nvjet") on Hopper share what they fetch. Internal to its planners.
#pragma once

namespace plumbline::cublas {

/// CTAs side by side along M and along N: those along N share rows of x, those along M rows of the weights.
struct ClusterShape {
  double rows = 1, cols = 1;
  double size() const { return rows * cols; }
};

/// What a cluster is chosen for: tiles along both sides, how many products or parts of K of them there are, and the bytes of
/// a tile's step, x's and the weights'.
struct TilesToShare {
  double rows, cols, times;
  double a, w;
};

/// Tiles along a side with those that only fill whole clusters.
double padded(double tiles, double cluster);

/// The largest cluster that takes no more turns than single CTAs would on all SMs: GPCs hold 30 clusters of four and 15 of
/// eight, 120 of 132 SMs, so that 121 to 132 tiles go in pairs. Of one size that which pads the tiles least, then that
/// which asks L2 for least. So an odd number of tiles along M leaves the weights unshared.
/// (97 % of 11,977 answers of cuBLASLt's heuristic with 61 to 132 tiles and 75 to 87 % of 8126 with more, in fp16, bf16 and
/// fp8, data/measurements/h200/pytorch/choices*.csv.gz; none of 822 clusters of eight beyond one turn took another turn.)
ClusterShape cluster_of(const TilesToShare& tiles, double sm_count);

}  // namespace plumbline::cublas
