#include "ops/whole_number.hpp"

#include <charconv>
#include <cmath>

namespace plumbline {

std::optional<std::int64_t> parse_whole(std::string_view text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  const char* end = text.data() + text.size();
  std::int64_t whole = 0;
  const auto digits = std::from_chars(text.data(), end, whole);
  if (digits.ec == std::errc() && digits.ptr == end) return whole;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  double number = 0;
  const auto decimal = std::from_chars(text.data(), end, number, std::chars_format::scientific);
  if (decimal.ec != std::errc() || decimal.ptr != end || number != std::floor(number) || number > kExact) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(number);
}

}  // namespace plumbline
