// Paged decode attention against its definition, on random shapes.
#pragma once

#include <vector>

#include "kernels/common/records.hpp"

namespace plumbline {

/// `shapes` random shapes: head widths, groups, page sizes, ragged contexts, windows and splits. Pages lie scattered
/// over a pool whose other memory is poisoned, as are the workspace, the output and what lies behind them. Every
/// element of the output must have been written; some rows are compared with fp64.
std::vector<Check> check_decode(unsigned seed, int shapes);

}  // namespace plumbline
