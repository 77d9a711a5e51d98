// What the two selections of a row's k largest values share: keys, checks, and what goes in and out.
#pragma once

#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline::selection {

template <class Shape>
inline constexpr auto kKeys = std::to_array<Key>({key<&Shape::rows>("rows"), key<&Shape::cols>("cols"),
                                                  key<&Shape::k>("k")});

template <class Shape>
inline constexpr auto kRelations = std::to_array<Relation<Shape>>(
    {{"key 'k': expected at most cols", [](const Shape& s) { return s.k <= s.cols; }, [](Shape& s) { s.k = s.cols; }}});

/// Work without its arithmetic: every element is read; k values and their int32 places are written a row.
template <class Shape>
Work moved(const Shape& s) {
  const double rows = d(s.rows), found = rows * d(s.k);
  Work w;
  w.math = s.dtype;
  w.read = storage(s.dtype, rows * d(s.cols));
  w.write = storage(s.dtype, found) + counting::byte(counting::kIndexBytes * found);
  return w;
}

template <class Shape>
Volume volume_of(const Shape& s) {
  return {counting::product_of({s.rows, s.cols}), 0};
}

}  // namespace plumbline::selection
