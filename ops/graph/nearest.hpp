#pragma once

#include <cstdint>
#include <string>

namespace plumbline {

/// The divisors of `whole` on both sides of `near`, as a refusal names them: "2 or 4".
std::string nearest_divisors(std::int64_t whole, std::int64_t near);

}  // namespace plumbline
