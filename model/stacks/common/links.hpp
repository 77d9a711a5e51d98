// What joins the GPUs of a node, on the machine that is asked about.
#pragma once

#include "arch/fabric/cluster.hpp"
#include "model/engine/rates.hpp"
#include "ops/shape/collective.hpp"

namespace plumbline {

/// What a GPU's port into the innermost tier carries on this machine, one direction: a study that changes the port changes
/// the tier, as a share of what the cluster's file was written for. `rates.fabric` must be there.
Bandwidth inner_wire(const Rates& rates);

/// By how much one way across the tier is longer than the ways that kernels' times were measured on: 0.6 us by NVLink, 1 us
/// by PCIe, 2.7 us by a network, NCCL's own figures (src/graph/tuning.cc, LL), which the shipped clusters have too. Negative
/// for a shorter one.
Seconds longer_way(const FabricTier& tier);

/// Ways across the links that follow one another in kernels that reach into peers' memory. A barrier is a flag's way.
inline constexpr double kFlaggedData = 1;           ///< data and flags in one store
inline constexpr double kLoadBetweenBarriers = 4;   ///< a barrier, a load's way there and back, a barrier
inline constexpr double kStoreBetweenBarriers = 3;  ///< a barrier, a store, a barrier

/// Whether the members of a collective, `most` at most, stand in one node and reach each other's memory by NVLink or its
/// like.
bool reach_each_other(const Collective& collective, std::int64_t most, const Rates& rates);

/// Of two times that overlap in part: (a^p + b^p)^(1/p), the longer one for a large p, the sum for 1.
Seconds pnorm_of_two(Seconds a, Seconds b, double p);

}  // namespace plumbline
