// A loop cut into equal parts, one a thread. Which part a number falls in never changes a result.
#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <vector>

namespace plumbline {

/// Calls `work(first, last)` on `parts` equal parts of [0, count), each on its own thread but the last, and waits for
/// all. The first exception, in order of the parts, is thrown again.
inline void in_parts(std::size_t count, std::size_t parts, const std::function<void(std::size_t, std::size_t)>& work) {
  std::vector<std::future<void>> others;
  for (std::size_t part = 0; part + 1 < parts; ++part) {
    others.push_back(std::async(std::launch::async, work, count * part / parts, count * (part + 1) / parts));
  }
  if (parts > 0) work(count * (parts - 1) / parts, count);
  for (auto& other : others) other.get();
}

}  // namespace plumbline
