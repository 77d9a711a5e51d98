#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// T tokens, each through `topk` of E experts: y_e[t_e,N] = x_e[t_e,K] W_e[N,K]^T. `skew` in [0,100]: percent by which
/// the hottest expert exceeds the mean load; 0 = balanced. All `topk` experts of a token read the same row of x[T,K];
/// for the down projection, whose T x topk input rows all differ, pass tokens = T x topk and topk = 1.
/// With `wgrad` the gradients of the experts' weights from the same rows: W_e[N,K] = y_e[t_e,N]^T x_e[t_e,K], y the input and x the
/// weight of `precision`.
struct GroupedGemm {
  std::int64_t experts = 0, topk = 0, tokens = 0, n = 0, k = 0;
  double skew = 0;
  Precision precision;
  bool wgrad = false;
  bool accumulate = false;  ///< of wgrad: added to what the gradients hold, which are read
  std::int64_t block = 0;   ///< operands of 8 bits: a scale for each (0), or as Gemm's 128
  bool operator==(const GroupedGemm&) const = default;
  static const Facts<GroupedGemm>& facts();
};

}  // namespace plumbline
