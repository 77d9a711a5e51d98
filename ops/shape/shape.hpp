// What the header of every operator needs. Such a header holds a plain struct: what the operator computes, in elements,
// for one rank; no machine, no kernel. The struct's comment is the operator's definition. Tensors are row-major.
//
// All else that is known of the operator (its names, keys, checks, work and gradient) lies in the .cpp of the same name
// and is reached by the struct's `facts()` (ops/facts/facts.hpp).
#pragma once

#include <cstdint>
#include <string_view>

#include "arch/dtype.hpp"

namespace plumbline {

template <class Shape>
struct Facts;

/// How an operator's kernels go through memory. Operators of one pattern err alike, so error bands of one that was
/// never measured come from its pattern (model/bands).
enum class Pattern : std::uint8_t {
  none,            ///< a class of its own, or never measured
  stream,          ///< reads and writes everything once and waits for nothing
  row_statistics,  ///< reduces a row first
  softmax_like,    ///< reduces a row twice and computes exponentials
  select_scan,     ///< passes partial results on between CTAs, or works through a row in order
};
constexpr std::string_view name(Pattern pattern) {
  switch (pattern) {
    case Pattern::none: return "none";
    case Pattern::stream: return "stream";
    case Pattern::row_statistics: return "row_statistics";
    case Pattern::softmax_like: return "softmax_like";
    case Pattern::select_scan: return "select_scan";
  }
  return "none";
}

}  // namespace plumbline
