#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// Moves routed tokens to (or back from) expert order: reads `tokens` rows, writes tokens x topk rows (dispatch) or the
/// reverse with a weighted sum (combine).
struct MoePermute {
  std::int64_t tokens = 0, topk = 0, cols = 0;
  bool combine = false;
  DType dtype = DType::bf16;
  bool operator==(const MoePermute&) const = default;
  static const Facts<MoePermute>& facts();
};

}  // namespace plumbline
