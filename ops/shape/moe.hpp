#pragma once

#include <vector>

#include "ops/shape/shape.hpp"

namespace plumbline {

/// A mixture of experts as one call, on the busiest rank: routing by given logits [T,E], rows brought into the order of
/// experts, two grouped products with the activation between them, and the weighted sum back to y[T,H]. `tokens` T are
/// all of them; the rank holds E/ep experts and the tp-th part of each one's width. `matrices`: 3 with a gate, 2 without.
/// `alpha_percent`: 100 x the exponent of a power law by which experts are liked; 0: every expert as much as the others.
/// `leftover`: who gets the rows that rounding such shares leaves over: 0 experts with fewest, a rank's part on each rank;
/// 1 those with most; 2 those with fewest, whose rank it may be.
/// `skew`: percent by which the hottest expert of a rank exceeds the rank's mean, as GroupedGemm has it; 0 = balanced.
/// `routed`: 1 where each token's experts and their weights are given in place of logits.
/// `block`: columns of activations (and rows and columns of weights) that share a scale, 8-bit types; 0: all of them.
struct Moe {
  std::int64_t tokens = 0, hidden = 0, width = 0, experts = 0, topk = 0;
  std::int64_t tp = 1, ep = 1, matrices = 3, alpha_percent = 0, leftover = 0, routed = 0, block = 0;
  double skew = 0;
  Precision precision;
  bool operator==(const Moe&) const = default;
  static const Facts<Moe>& facts();
  std::int64_t own_width() const { return width / tp; }
  bool gated() const { return matrices == 3; }
};

/// Rows that each of a rank's experts has. Of a power law there are several draws, one behind the other.
struct ExpertRows {
  std::vector<std::int64_t> rows;
  double draws = 1;

  double total() const;    ///< rows of all of the rank's experts, mean over draws
  double touched() const;  ///< experts with a row, mean over draws
  /// Whole tiles of `height` rows, mean over draws.
  double tiles(double height) const;
};

/// Balanced: token t takes experts t, t + s, t + 2s ... with s = ceil(E / topk), spread out evenly where tokens are
/// fewer than s. By a power law: experts' shares are drawn from x^-alpha between 1 and 0.8 T (0.01 and 2 where T x topk
/// is no more than E), scaled to T x topk rows, at most T each; the rank with most rows. With `skew`: as many rows as
/// when balanced, from (1 + skew) of their mean down to (1 - skew) in equal steps, whole rows. The first two as
/// benchmarks of serving stacks draw them (aiconfigurator, collector/helper.py; `leftover` by its releases); our draws
/// are of a fixed sequence of numbers, theirs of another.
ExpertRows expert_rows(const Moe& shape);

}  // namespace plumbline
