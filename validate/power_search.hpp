// Minimum of a function of a few numbers without derivatives.
#pragma once

#include <functional>
#include <vector>

namespace plumbline {

/// Nelder and Mead's simplex (Comput. J. 7, 1965) from `start`, first edges of `step` a coordinate, at most `most`
/// evaluations; started anew from its best point once, as it can collapse.
std::vector<double> simplex_search(const std::function<double(const std::vector<double>&)>& loss,
                                   std::vector<double> start, double step, int most);

}  // namespace plumbline
