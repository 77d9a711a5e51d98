#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

enum class ScanKind { sum_all, cumsum, norm_all };
std::string_view name(ScanKind kind);

/// The sum of n values, or their running sums.
struct Scan {
  ScanKind kind = ScanKind::sum_all;
  std::int64_t n = 0;
  DType dtype = DType::fp32;
  bool operator==(const Scan&) const = default;
  static const Facts<Scan>& facts();
};

}  // namespace plumbline
