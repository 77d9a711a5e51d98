// The band of a step's time, and what several cards and a waiting host add to the bands of its time and power.
#pragma once

#include "model/predict.hpp"

namespace plumbline {

/// The band of the step: the residuals of whole steps where they say enough; else the wider, to either side, of
/// those and of what the operators' bands add up to. Gaps have none of their own; what is wrong with them is in whole steps.
/// `fused_as_stack`: fusions are the stack's own and nothing overlaps, as its whole steps were recorded.
void set_band(StepPrediction& out, const Machine& machine, const RunOptions& options, bool fused_as_stack);

/// Of several GPUs no two are alike, and which one is the hottest is not known: at one clock they draw unlike power, under
/// the cap they settle at unlike clocks, as far apart, and a step runs at the slowest one's. What one card of a kind adds to
/// either side of a band (5-95 %, as ln) is independent of the rest of it.
void widen_by_cards(StepPrediction& out, const Machine& machine);

/// A step that waits for its host spends its work's energy in a time that is as uncertain as the step is: its power is
/// what stands, and the rest over that time. What it adds to either side of the power's band is independent of the rest of it.
void widen_by_host(StepPrediction& out, const Machine& machine);

}  // namespace plumbline
