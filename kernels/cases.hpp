// Our operators with everything their launchers need: checked against the reference.
#pragma once

#include <vector>

#include "kernels/records.hpp"

namespace plumbline {

/// Every kernel on fresh random inputs, ragged shapes among them: outputs are poisoned before, so is the memory behind
/// them, which must stay as it was.
std::vector<Check> check_kernels(unsigned seed);

}  // namespace plumbline
