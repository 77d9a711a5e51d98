// Long lists of shipped files under sanitizers: they differ in numbers, not in the code that reads them, which takes ten
// times as long there.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace plumbline::test {

#ifdef PLUMBLINE_SANITIZED
inline constexpr std::size_t kEach = 5;
#else
inline constexpr std::size_t kEach = 1;
#endif

/// What is said of a whole list is not judged of a sample.
inline constexpr bool kWhole = kEach == 1;

/// All of a list; under sanitizers every fifth of it.
template <class T>
std::vector<T> sampled(std::vector<T> all) {
  std::vector<T> some;
  for (std::size_t i = 0; i < all.size(); i += kEach) some.push_back(std::move(all[i]));
  return some;
}

}  // namespace plumbline::test
