// What one card of a kind adds to the bands of whole steps. Bands are found on operators of one card, and operators of a
// step that run on another share what that card differs by (2 %: docs/calibration/probes.md); no sum of their own
// errors grows as much.
#pragma once

#include <vector>

#include "arch/calibration/calibration.hpp"
#include "validate/fit/band_rows.hpp"
#include "validate/step/step_report.hpp"

namespace plumbline {

/// The least share c of the predicted time for which a further step lies in its band with at least 90 % chance, when
/// half-widths w become sqrt(w^2 + c^2): the order statistic of split conformal prediction, as of operators' bands. 0
/// without steps. `rows`: priced with bands that hold no such share.
double card_spread(const std::vector<StepRow>& rows);

/// Finds the share of our own kernels' steps on the card of `calibration` and puts it there. Training steps of `sources`
/// alone: CRC32 of model|phase|gpus|batch|prompt|context|output is odd (validate/record/held_out.hpp).
void add_card_spread(const std::vector<StepSource>& sources, Calibration& calibration);

/// Of the steps on one side of the rule that were measured and modelled, those inside their bands.
struct StepCoverage {
  long steps = 0, inside = 0;
};
StepCoverage step_coverage(const std::vector<StepSource>& sources, const Calibration& calibration, Half half);

}  // namespace plumbline
