// Planner of our own dense GEMM: one compiled kernel of a menu, laid over the operands. Two engines: wgmma fed by TMA,
// persistent, whose split sums meet within the launch; mma.sync fed by cp.async, whose splits are added up by a second
// launch.
#pragma once

#include <optional>

#include "model/engine/rates.hpp"
#include "model/stacks/common/gemm_task.hpp"

namespace plumbline {

/// The scalars of the engine that `task.own` names, and of the launch that adds up splits.
const FamilyScalars& own_gemm_family(const GemmTask& task, const Rates& rates);
const FamilyScalars& own_reduce_family(const Rates& rates);

/// The cheapest of the menu. `task.own` names the engine.
GemmChoice plan_own_gemm(const GemmTask& task, const Rates& rates, GemmCache& cache);

/// What one plan of our own menu costs, or nothing when it is not in there.
std::optional<GemmChoice> price_own_plan(const GemmTask& task, const GemmPlan& plan, const Rates& rates,
                                         GemmCache& cache);

}  // namespace plumbline
