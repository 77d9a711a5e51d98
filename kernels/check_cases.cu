// Every row-wise, moving, scanning and selecting kernel against its reference, before anything is timed.
#include "kernels/cases.hpp"

namespace plumbline {

std::vector<Check> check_kernels(unsigned seed) {
  constexpr int kShapes = 60;  // of each kernel, beyond those that are always checked
  std::vector<Check> out;
  for (const auto check : {check_rowwise, check_moves, check_scans, check_topk}) {
    const std::vector<Check> more = check(seed, kShapes);
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

}  // namespace plumbline
