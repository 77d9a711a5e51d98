// Names of precisions as an operator's dtype gives them (`w4a16`, `fp8`, ...).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "arch/dtype.hpp"

namespace plumbline {

/// Values that share a scale in mxfp8 (OCP, Microscaling Formats v1.0), as `block` of a product has it.
inline constexpr std::int64_t kMxBlock = 32;

/// What `parse_precision` reads, without aliases.
std::span<const std::string_view> precision_names();
/// The named precision that differs from `precision` in the fewest parts, by name and as such.
std::string_view base_precision(const Precision& precision);
Precision named_precision_near(const Precision& precision);

}  // namespace plumbline
