#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

/// Rotary embedding of `heads` heads of width D for every token, in place.
struct Rope {
  std::int64_t tokens = 0, heads = 0, head_dim = 0;
  DType dtype = DType::bf16;
  bool operator==(const Rope&) const = default;
  static const Facts<Rope>& facts();
};

}  // namespace plumbline
