// Planner of our own dense GEMM: one compiled kernel of a menu, laid over the operands. Two engines: wgmma fed by TMA,
// persistent, whose split sums meet within the launch; mma.sync fed by cp.async, whose splits are added up by a second
// launch.
#pragma once

#include <optional>
#include <span>

#include "model/engine/rates.hpp"
#include "model/stacks/common/gemm_task.hpp"

namespace plumbline {

/// The cheapest of the menu of the engine that `task.engine` names. `families`: ours (own_kernels.hpp).
GemmChoice plan_own_gemm(const GemmTask& task, const Rates& rates, std::span<const FamilyScalars> families,
                         GemmCache& cache);

/// What one plan of our own menu costs, or nothing when it is not in there.
std::optional<GemmChoice> price_own_plan(const GemmTask& task, const GemmPlan& plan, const Rates& rates,
                                         std::span<const FamilyScalars> families, GemmCache& cache);

}  // namespace plumbline
