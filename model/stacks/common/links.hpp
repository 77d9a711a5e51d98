// What joins the GPUs of a node, on the machine that is asked about.
#pragma once

#include "arch/fabric/cluster.hpp"
#include "model/engine/rates.hpp"
#include "ops/shape/collective.hpp"

namespace plumbline {

/// What a GPU's port into the innermost tier carries on this machine, one direction: a study that changes the port changes
/// the tier, as a share of what the cluster's file was written for. `rates.fabric` must be there.
Bandwidth inner_wire(const Rates& rates);

/// Whether the members of a collective, `most` at most, stand in one node and reach each other's memory by NVLink or its
/// like.
bool reach_each_other(const Collective& collective, std::int64_t most, const Rates& rates);

/// Of two times that overlap in part: (a^p + b^p)^(1/p), the longer one for a large p, the sum for 1.
Seconds pnorm_of_two(Seconds a, Seconds b, double p);

}  // namespace plumbline
