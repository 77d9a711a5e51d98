// Planner of our own kernels for everything that mostly moves data: how many CTAs hold what, how much of a CTA's life
// is not shared with another's, and what stays in L2.
#pragma once

#include "model/engine/rates.hpp"
#include "ops/facts/work.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// What L2 holds as a launch begins.
enum class L2State {
  others,        ///< what launches before it have touched and written: as many lines as it leaves written, it finds
  operands,      ///< inputs and outputs, as far as they fit
  read_through,  ///< other data that was only read: nothing waits to be written back
};

/// Of a card that runs them (they need clusters: own_kernels.hpp).
Demand plan_own_rows(const Op& op, const Work& work, const Rates& rates, const FamilyScalars& family, L2State l2);

}  // namespace plumbline
