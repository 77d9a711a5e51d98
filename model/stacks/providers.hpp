// All kernel providers, by name. A stack file lists those that it runs (stack.hpp).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/stacks/provider.hpp"

namespace plumbline {

std::span<const Provider* const> providers();
/// Null where there is none of that name.
const Provider* find_provider(std::string_view name);
std::vector<std::string> provider_names();

}  // namespace plumbline
