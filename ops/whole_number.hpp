// Whole numbers as people write them: "4096", "1e6", "2.5e5".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plumbline {

/// Digits, or a decimal with an exponent whose value is whole and below 2^53. No sign, no blank. Nothing where the text
/// is no such number, or one of more than 63 bits.
std::optional<std::int64_t> parse_whole(std::string_view text);

}  // namespace plumbline
