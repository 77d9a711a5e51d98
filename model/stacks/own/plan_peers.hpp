// Our own collectives over NVLink: priced from the plan that kernels/collective launches (ops/plan/peer_plan.hpp).
#pragma once

#include "model/stacks/provider.hpp"
#include "ops/shape/collective.hpp"

namespace plumbline {

/// Answers a collective among the GPUs of one node that reach each other's memory by NVLink. False: there is no kernel of
/// ours (another link, more ranks than a node or a group has, a type that our kernels do not add, a forced algorithm that
/// is not ours), or no time of one on file.
bool plan_own_collective(const Collective& shape, const Question& question, Answer& answer);

}  // namespace plumbline
