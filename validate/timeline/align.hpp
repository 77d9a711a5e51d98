// A measured timeline beside a predicted step: which launch is which operator's, by order, shape and, as a hint, names.
// Times take no part in it: a match is not chosen because it makes the prediction look right.
#pragma once

#include <cstdint>
#include <vector>

#include "model/predict.hpp"
#include "validate/timeline/launch_kind.hpp"

namespace plumbline {

/// One execution of an operator of a step, in the order in which they run.
struct ExpectedLaunch {
  int node = 0;  ///< of StepPrediction::nodes
  LaunchKind kind = LaunchKind::other;
  std::optional<MatrixSizes> matrix;
  std::int64_t ctas = 0, threads = 0;  ///< of its first launch
  std::uint32_t words = 0;             ///< words_of() its names
};
/// All of a step; operators that launch nothing are left out.
std::vector<ExpectedLaunch> expected_launches(const StepPrediction& step);

struct Alignment {
  /// Steps in the timeline: products and attention in it / those of a step, at least 1.
  int steps = 1;
  /// Of each measured launch, the step that it is of and the place in the list of expected launches; -1: of none.
  struct Match {
    int step = 0, expected = -1;
  };
  std::vector<Match> of;
};

/// The alignment of sequences with the largest sum of points (Needleman and Wunsch, J. Mol. Biol. 48, 1970, with free
/// ends on the predicted side: a timeline may hold a part of a step). A pair has points for its kind, shape, grid and
/// names; launches of different kinds, and products of different sizes, are no pair. What is left over on both sides near
/// each other is paired where sizes, or names, agree: others run some launches in another order. Launches of one call of the framework,
/// and sums over parts behind a product, are the operator's whose main launch is matched.
/// Throws BadInput where launches x expected launches of a step pass 4e8.
Alignment align(const std::vector<ExpectedLaunch>& expected, const std::vector<TimelineKernel>& measured);

}  // namespace plumbline
