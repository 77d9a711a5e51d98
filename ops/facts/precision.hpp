// Names of precisions as an operator's dtype gives them (`w4a16`, `fp8`, ...).
#pragma once

#include <span>
#include <string_view>

#include "arch/dtype.hpp"

namespace plumbline {

/// What `parse_precision` reads, without aliases.
std::span<const std::string_view> precision_names();
/// The named precision that differs from `precision` in the fewest parts, by name and as such.
std::string_view base_precision(const Precision& precision);
Precision named_precision_near(const Precision& precision);

}  // namespace plumbline
