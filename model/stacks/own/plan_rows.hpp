// Planner of our own kernels for everything that mostly moves data: how many CTAs hold what, how much of a CTA's life
// is not shared with another's, and what stays in L2.
#pragma once

#include "model/engine/rates.hpp"
#include "ops/facts/work.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// Of a card that runs them (they need clusters: own_kernels.hpp). `warm`: inputs and outputs that fit stay in L2.
Demand plan_own_rows(const Op& op, const Work& work, const Rates& rates, const FamilyScalars& family, bool warm);

}  // namespace plumbline
