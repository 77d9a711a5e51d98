// Relative values of `--set`: "+20%", "-10 %", "x1.5" of what the descriptor has.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "arch/json_reader.hpp"

namespace plumbline::descriptor {

/// The factor that a relative value stands for; nothing for any other text. Throws BadInput for one that leaves nothing
/// ("-100%") or is no number ("+x%").
std::optional<double> relative_factor(std::string_view text);

/// `value` times the factor, with its unit, as `--set` would write it: 132 x 1.5 -> "198", "4.8 TB/s" x 1.2 ->
/// "5.76 TB/s". Counts are rounded to whole numbers.
std::string scaled(const JsonValue& value, double factor);

}  // namespace plumbline::descriptor
