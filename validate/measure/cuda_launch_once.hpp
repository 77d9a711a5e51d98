// Every case of a study launched once, for a profiler to count instructions by: `ncu ... probe --launch FILE.csv`.
#pragma once

#include <string>
#include <vector>

#include "validate/record/measurer.hpp"

namespace plumbline {

/// What one case came to: empty, or why it was not launched.
struct LaunchedOnce {
  std::string text;   ///< the case in a line
  std::string fault;  ///< why no kernel of ours ran; empty when one did
};

/// Launches each case once on our own kernels with the plan that the model prices on this card, behind a marker that
/// says its number (kernels/run/case_marker.hpp). Operands are random and cold at most by chance: counts are meant,
/// not times. Throws DeviceError when the card fails, BadInput when no descriptor is its.
std::vector<LaunchedOnce> launch_once(const std::vector<StudyCase>& cases);

}  // namespace plumbline
