// What the pages of a step and of a whole answer share: the verdict on memory, the memory bar, what binds the time.
#pragma once

#include <string>
#include <vector>

#include "model/predict.hpp"
#include "ops/memory/fit.hpp"

namespace plumbline::html {

/// Whether it fits, and what would: by memory alone, whatever the time.
std::string fit_verdict(const MemoryNeed& need, const Fit& fit);
/// What memory holds, as parts of the capacity.
std::string memory_section(const MemoryNeed& need, const Fit& fit);

struct NamedShare {
  const char* label;
  double share;
  const char* css;
};
/// Largest first; the colours are not those of operators.
std::vector<NamedShare> time_shares(const TimeShare& share);

}  // namespace plumbline::html
