// Persistent kernels whose CTAs take work items as they become free, in one order: one counter for all.
#pragma once

#include <vector>

#include "model/engine/demand.hpp"
#include "model/engine/rates.hpp"

namespace plumbline {

/// Of such a launch: CTAs, one an SM; steps of all of them in the mean; steps and items of the one that ends last.
struct DealtInOrder {
  double ctas = 0, mean = 0, steps = 0, items = 0;
};

/// Clocks of a step by itself: its units beside one another, and what nothing hides.
double step_alone_clk(const Demand& step);

/// p of the p-norm of what such an SM is busy with and what memory takes: its units are part of its steps already.
inline constexpr double kBesideTheChain = 8;

/// `heads` times the items of a head, one head behind the other; `once`: what an item takes beside its steps, in steps.
DealtInOrder deal_in_order(double heads, const std::vector<double>& steps_of_items, double once, double sm_count);

/// The counter is cleared by a memset before the launch, which takes as long as 160 recorded ones did (the median, H200 and H100),
/// and what lies between two launches.
void clear_counter(Demand& launch, const Rates& rates);

}  // namespace plumbline
