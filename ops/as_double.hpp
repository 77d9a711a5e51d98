// A dimension as a factor of work, bytes or time.
#pragma once

#include <cstdint>

namespace plumbline {

/// Exact up to 2^53; dimensions are checked far below.
constexpr double d(std::int64_t n) { return static_cast<double>(n); }

}  // namespace plumbline
