// Number formats of one step.
#pragma once

#include <cstdint>

#include "arch/dtype.hpp"

namespace plumbline::lowering {

/// Formats of one step, resolved from the model file and the workload (ops/resolve).
struct Types {
  DType base = DType::bf16;  ///< activations, embedding, head, router, norms
  Precision plain, linear, experts;
  DType kv = DType::bf16;
  bool quantizes(const Precision& p) const { return bits(p.input) < bits(base); }
};

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace plumbline::lowering
