// Minimum of a function of a few numbers without derivatives; least squares with no negative answer.
#pragma once

#include <functional>
#include <vector>

namespace plumbline {

/// Nelder and Mead's simplex (Comput. J. 7, 1965) from `start`, first edges of `step` a coordinate, at most `most`
/// steps (of one or two evaluations, or one a coordinate more where the simplex shrinks); started anew from its best point once, as it can collapse.
std::vector<double> simplex_search(const std::function<double(const std::vector<double>&)>& loss,
                                   std::vector<double> start, double step, int most);

/// x >= 0 that minimizes |A x - b|; A column by column (Lawson, Hanson 1974, chapter 23).
std::vector<double> non_negative_least_squares(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace plumbline
