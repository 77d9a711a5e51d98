// What a report has to say of one prediction beside what its machine assumes: each a sentence.
#pragma once

#include <string>
#include <vector>

#include "model/predict.hpp"

namespace plumbline {

/// Draws more than the cap: the lowest clock does not meet it. `power`: mean of the run; in bursts no cap is kept.
bool is_over_cap(const Machine& machine, const std::optional<Watts>& power);

/// A power cap that cannot be met, as even the lowest clock draws more, and one beyond the board's own limit; nothing
/// where the cap holds. `power`: mean of the run.
std::vector<std::string> cap_remarks(const Machine& machine, const std::optional<Watts>& power);

/// Whose steps the band is at least as wide as: recorded steps of the stack, or, where nobody has recorded any, the widest
/// on file. Nothing for the roofline floor.
std::vector<std::string> band_remarks(const StepPrediction& step, const Machine& machine);

}  // namespace plumbline
