// Names of precisions as an operator's dtype gives them (`w4a16`, `fp8`, ...).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/dtype.hpp"

namespace plumbline {

/// Values that share a scale in mxfp8 (OCP, Microscaling Formats v1.0), as `block` of a product has it.
inline constexpr std::int64_t kMxBlock = 32;

/// What `parse_precision` reads, without aliases.
std::span<const std::string_view> precision_names();
/// " (did you mean 'nvfp4' or 'mxfp4'?)" of a precision by another name (fp4, w8a8, awq, BF16), else of the nearest of `names`, or
/// "". `by_operator`: scales and types of operands have keys of their own there, which may be what is meant (block=32 of mxfp8).
std::string meant_precision(std::string_view text, const std::vector<std::string>& names, bool by_operator);
/// The named precision that differs from `precision` in the fewest parts, by name and as such.
std::string_view base_precision(const Precision& precision);
Precision named_precision_near(const Precision& precision);

}  // namespace plumbline
