// A field that holds a number above zero.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace plumbline {

/// Nothing for text that is not, from its first to its last letter, a finite number above zero.
inline std::optional<double> positive_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value <= 0) return {};
  return value;
}

}  // namespace plumbline
