// What the operators' counts of work are written with. What counts as what stands at the head of ops/facts/work.hpp.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "ops/as_double.hpp"
#include "ops/facts/work.hpp"

namespace plumbline::counting {

inline constexpr double kIndexBytes = 4;  ///< int32
inline constexpr double kFloatBytes = 4;  ///< fp32 scales, routing weights, optimizer state

constexpr Flops flop(double n) { return n * units::FLOP; }
constexpr Bytes byte(double n) { return n * units::B; }

/// Product of dimensions, without overflow.
constexpr double product_of(std::initializer_list<std::int64_t> dims) {
  double product = 1;
  for (std::int64_t dim : dims) product *= static_cast<double>(dim);
  return product;
}

}  // namespace plumbline::counting
