// The launches of one execution at a share of the boost clock: what they take, and how long. The clock at which their
// mean power meets the cap is looked for with these (power.hpp), by predictions and by planners alike.
#pragma once

#include <span>

#include "model/engine/launch.hpp"
#include "model/engine/power.hpp"
#include "model/engine/rates.hpp"

namespace plumbline {

/// `left`: share of the SM cycles that is left where tensor units work.
Speeds speeds_at(const LaunchPrediction& launch, const PowerScalars& power, double clock_share, double left);

/// The energies of one execution; they do not depend on the clock. `useful`: FLOPs of the operator, the rest of what
/// tensor units do being padding; `read`, `written`: DRAM bytes of all of it. The rates have power scalars.
RunEnergy energy_of_run(std::span<const LaunchPrediction> launches, Flops useful, DType math, Bytes read, Bytes written,
                        const Rates& rates);

/// Share of the SM cycles that is left where tensor units work: beyond the load line's threshold the more are skipped the
/// more power is drawn, and power is that of the time that the launches take with what is left, so that a faster machine
/// does not skip itself slower. `at_usual`: their time if only the usual cycles are skipped.
double cycles_left_of(std::span<const LaunchPrediction> launches, const RunEnergy& energy, const Rates& rates,
                      double clock_share, Seconds at_usual);

/// How long the launches take at a share of the boost clock, the gaps of a graph between them.
Seconds time_at(std::span<const LaunchPrediction> launches, const RunEnergy& energy, const Rates& rates,
                double clock_share);

/// The share of the boost clock that the cap leaves, and a locked clock where that is lower; `at_boost`: time there.
double clock_share_of(std::span<const LaunchPrediction> launches, const RunEnergy& energy, const Rates& rates,
                      Seconds at_boost);

}  // namespace plumbline
