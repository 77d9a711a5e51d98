#include "model/stacks/cublas/choice.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "arch/dtype.hpp"
#include "model/stacks/cublas/choice_net.hpp"
#include "model/stacks/cublas/clusters.hpp"
#include "model/stacks/cublas/xmma.hpp"

namespace plumbline::cublas {
namespace {

/// A product as the answers were asked for: bytes of an operand's element, steps of 128 bytes of K.
struct Product {
  double m, n, batch, bytes, steps, sm_count;
  bool across;
};

/// A product cut by a kernel.
struct Cut {
  const AnyTile* tile;
  double parts;
  double tiles_m, tiles_n;  ///< without those that only fill clusters
  double deep;              ///< steps of a part
  double ctas;              ///< with those
  double turns;
  ClusterShape cluster;
  double asked;  ///< of L2 by a CTA in a step, in rows of 128 bytes / 128
  double likely;
};

constexpr double kMostParts = 8, kLeastSteps = 12, kFullTurn = 1e-6;

double area(const AnyTile& tile) { return tile.along_n * tile.along_m / (128.0 * 128.0); }

double turns_of(double tiles, double at_once) { return std::ceil(tiles / at_once - kFullTurn); }

Cut cut(const Product& p, const AnyTile& tile, double parts) {
  Cut c{
      &tile, parts, std::ceil(p.m / tile.along_m), std::ceil(p.n / tile.along_n), std::ceil(p.steps / parts), 0, 0, {},
      0,     0};
  const double times = p.batch * parts, w = tile.along_n, a = tile.along_m;
  c.cluster = cluster_of({c.tiles_m, c.tiles_n, times, a, w}, p.sm_count);
  c.ctas = times * padded(c.tiles_m, c.cluster.rows) * padded(c.tiles_n, c.cluster.cols);
  c.turns = turns_of(c.ctas, ctas_in_clusters(c.cluster.size(), p.sm_count));
  c.asked = (a / c.cluster.cols + w / c.cluster.rows) / 128;
  return c;
}

/// The logarithm of a step's and an end's time a turn, in a unit of the fit: tensor units, L2 and memory beside each other.
double likely(const Product& p, const Cut& c) {
  const ChoiceCost& of = kChoiceCost;
  const double sides = (c.tile->along_n + c.tile->along_m) / 128.0, size = area(*c.tile);
  const double multiply = of.step + of.step_area * size + of.step_sides * sides;
  const double end = of.end + of.end_area * size + of.end_sides * sides;
  const double l2 = c.asked * (of.l2_shared * std::min(1.0, c.ctas / p.sm_count) + of.l2_alone);
  const double dram = (p.m + p.n) * p.batch * 128 * of.dram / c.turns;
  const double step =
      std::pow(std::pow(multiply, of.power) + std::pow(l2, of.power) + std::pow(dram, of.power), 1 / of.power);
  const double second = c.parts > 1 ? of.second + of.second_sum * p.m * p.n * c.parts : 0;
  return -std::log(c.turns * (c.deep * step + end) + of.fixed + second) / of.spread;
}

/// Larger ones first.
std::vector<Cut> likely_cuts(const Product& p) {
  std::vector<Cut> cuts;
  cuts.reserve(kAnyTiles.size() * 2);
  for (const AnyTile& tile : kAnyTiles) {
    constexpr int kSmallest = 64;
    if ((tile.along_m > kSmallest && tile.along_m >= 2 * p.m) || (tile.along_n > kSmallest && tile.along_n >= 2 * p.n))
      continue;
    const double tiles = std::ceil(p.m / tile.along_m) * std::ceil(p.n / tile.along_n) * p.batch;
    for (double parts = 1; parts <= kMostParts; ++parts) {
      if (parts > 1 && (std::ceil(p.steps / parts) < kLeastSteps || parts * tiles > p.sm_count)) break;
      Cut c = cut(p, tile, parts);
      if (parts > 1 && c.turns > 1) continue;
      c.likely = likely(p, c);
      cuts.push_back(c);
    }
  }
  const auto more = [](const Cut& a, const Cut& b) { return a.likely > b.likely; };
  const auto most = std::min<std::size_t>(kLikeliest, cuts.size());
  std::partial_sort(cuts.begin(), cuts.begin() + static_cast<std::ptrdiff_t>(most), cuts.end(), more);
  cuts.resize(most);
  return cuts;
}

using Features = std::array<float, kChoiceFeatures>;

Features features(const Product& p, const Cut& c, double behind) {
  constexpr int kWarpgroup = 22528;  // sums from which on two warpgroups share a tile
  const double n = c.tile->along_n, m = c.tile->along_m, sms = p.sm_count;
  const double bare = c.tiles_m * c.tiles_n * p.batch * c.parts / sms;
  const auto log = [](double x) { return std::log(static_cast<float>(x)); };
  const auto whole = [](int side, int of) { return side % of == 0 ? 1.0F : 0.0F; };
  return {log(c.ctas / sms),
          log(c.turns),
          static_cast<float>(bare - std::floor(bare - kFullTurn)),
          log(bare),
          log(area(*c.tile)),
          log(n / 64),
          log(m / 64),
          log(c.parts),
          c.parts > 1 ? 1.0F : 0.0F,
          log(p.steps),
          log(c.deep),
          log(c.tiles_m),
          log(c.tiles_n),
          log(p.m / 128),
          log(p.n / 1024),
          static_cast<float>(p.bytes),
          log(c.cluster.rows),
          log(c.cluster.cols),
          log(c.asked),
          log(c.asked * std::min(1.0, c.ctas / sms)),
          log(c.tiles_m * m / p.m),
          log(c.tiles_n * n / p.n),
          whole(c.tile->along_n, 64),
          whole(c.tile->along_m, 64),
          whole(c.tile->along_n, 128),
          whole(c.tile->along_m, 128),
          n * m > kWarpgroup ? 1.0F : 0.0F,
          log(p.m * p.n * p.batch / 1e6),
          c.turns <= 1 ? 1.0F : 0.0F,
          p.across ? 1.0F : 0.0F,
          static_cast<float>(behind)};
}

using Layer = std::array<float, kChoiceWidth>;

/// What a layer's neurons are given.
template <std::size_t inputs>
Layer sums(const std::array<float, inputs>& x, const std::array<Layer, inputs + 1>& weights) {
  Layer out = weights[inputs];
  for (std::size_t j = 0; j < inputs; ++j) {
    for (std::size_t i = 0; i < kChoiceWidth; ++i) out[i] += weights[j][i] * x[j];
  }
  return out;
}

Layer smooth(Layer x) {
  for (float& value : x) value /= 1 + std::exp(-value);
  return x;
}

float net(const Features& x) {
  const Layer last = smooth(sums(smooth(sums(x, kChoiceFirst)), kChoiceSecond));
  float out = 0;
  for (std::size_t i = 0; i < kChoiceWidth; ++i) out += kChoiceLast[i] * last[i];
  return out;
}

}  // namespace

bool was_asked_for(const gemm::Context& c) {
  constexpr double kLeastRows = 32, kLeastColumns = 512, kLeastDepth = 512;
  const GemmTask& t = c.task;
  const bool plain = t.batch <= 1 && t.weight_bytes == t.input_bytes && t.input_bytes == bytes_of(t.math);
  // of more turns the tile matters little, and the energies of tensor units are found with what the search takes there
  constexpr double kMostTurns = 7, kTile = 128 * 128;
  const bool few_turns = t.m * t.n <= kMostTurns * kTile * c.rates.sm_count;
  return plain && few_turns && t.m >= kLeastRows && t.n >= kLeastColumns && t.k >= kLeastDepth;
}

KernelOfAnyTile likely_kernel(const gemm::Context& c) {
  const GemmTask& t = c.task;
  const double bytes = bytes_of(t.math);
  const Product p{t.m, t.n, t.batch, bytes, std::ceil(t.k * bytes / 128), c.rates.sm_count, t.weights_kn};
  const std::vector<Cut> cuts = likely_cuts(p);
  constexpr double kFarBehind = 30;
  const Cut* best = nullptr;
  float most = 0;
  for (const Cut& one : cuts) {
    const float score = net(features(p, one, std::max(-kFarBehind, one.likely - cuts.front().likely)));
    if (best != nullptr && score <= most) continue;
    best = &one;
    most = score;
  }
  return {*best->tile, best->parts};
}

}  // namespace plumbline::cublas
