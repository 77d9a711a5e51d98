#include "kernels/common/records.hpp"

#include <algorithm>
#include <cmath>

#include "arch/error.hpp"

namespace plumbline {

Spread spread(std::vector<double> samples) {
  if (samples.empty()) throw Error(ExitCode::our_bug, "spread of no samples");
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double q) {
    return samples[static_cast<std::size_t>(std::lround(q * static_cast<double>(samples.size() - 1)))];
  };
  return {at(0.5), at(0.1), at(0.9), static_cast<int>(samples.size())};
}

}  // namespace plumbline
