// Every scalar that a calibration may hold. A misspelt name would otherwise be a number that nobody reads.
#pragma once

#include <span>
#include <string_view>

namespace plumbline {

/// Scalars that the engine reads, each of them.
std::span<const std::string_view> machine_scalar_names();
/// Further findings of the probes, in a section of their own: nothing is priced with them.
std::span<const std::string_view> probed_scalar_names();
std::span<const std::string_view> power_scalar_names();
std::span<const std::string_view> family_names();
std::span<const std::string_view> family_scalar_names();

}  // namespace plumbline
