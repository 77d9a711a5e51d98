// Our operators with everything their launchers need: checked against the reference, and timed.
#pragma once

#include <vector>

#include "kernels/board.hpp"
#include "kernels/records.hpp"

namespace plumbline {

/// Every kernel on fresh random inputs, ragged shapes among them: outputs are poisoned before, so is the memory behind
/// them, which must stay as it was.
std::vector<Check> check_kernels(unsigned seed);

/// Every operator over its grid of shapes, cold: a graph of launches that take turns on buffers of more than three
/// times the L2. `samples` replays each.
std::vector<Timing> time_kernels(const Board& board, int samples);

}  // namespace plumbline
