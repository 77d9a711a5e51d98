#include "ops/graph/nearest.hpp"

#include <algorithm>

namespace plumbline {

std::string nearest_divisors(std::int64_t whole, std::int64_t near) {
  std::int64_t below = std::min(near, whole), above = near;
  while (below > 1 && whole % below != 0) --below;
  while (above <= whole && whole % above != 0) ++above;
  std::string text = std::to_string(below);
  return above <= whole ? text + " or " + std::to_string(above) : text;
}

}  // namespace plumbline
