// What joins the GPUs of a node, on the machine that is asked about.
#pragma once

#include "arch/fabric/cluster.hpp"
#include "model/engine/rates.hpp"

namespace plumbline {

/// What a GPU's port into the innermost tier carries on this machine, one direction: a study that changes the port changes
/// the tier, as a share of what the cluster's file was written for. `rates.fabric` must be there.
Bandwidth inner_wire(const Rates& rates);

}  // namespace plumbline
