// Number formats of one step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "arch/dtype.hpp"
#include "arch/units.hpp"

namespace plumbline::lowering {

/// Formats of one step, resolved from the model file and the workload (ops/resolve).
struct Types {
  DType base = DType::bf16;  ///< activations, embedding, head, router, norms
  Precision plain, linear, experts;
  DType kv = DType::bf16;
  std::int64_t block = 0;  ///< of weights and activations of 8 bits that share a scale (Quantization::block)
  std::int64_t block_of(const Precision& p) const { return p.weight == DType::fp8 && p.math == DType::fp8 ? block : 0; }
  bool quantizes(const Precision& p) const { return bits(p.input) < bits(base); }
};

/// Bytes of an exchange, whole; no more than an integer holds with room to spare (2^62), whatever sizes a file makes up.
inline std::int64_t whole_bytes(Bytes bytes) {
  constexpr double kMost = 4611686018427387904.0;
  return static_cast<std::int64_t>(std::min(kMost, std::ceil(bytes.in(units::B))));
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace plumbline::lowering
