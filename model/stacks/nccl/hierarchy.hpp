// Collectives in levels, as their callers lay them out of NCCL's calls: inside a node, then between the GPUs that stand in
// the same place of each node (a rail), so that the network carries a node's share of the data alone.
//
//   all-reduce      reduce-scatter in the node, all-reduce of a share along the rails, all-gather in the node
//   reduce-scatter  reduce-scatter in the node, and of a share along the rails
//   all-gather      along the rails, then in the node
//   broadcast       along the root's rail, then in each node
//
// (Horovod, "hierarchical allreduce"; Jia et al., arXiv 1807.11205, section 3.3.) One call waits for the other: nothing of
// them overlaps. NCCL's own rings and trees go through the nodes in the same way, cut into chunks that do overlap.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/shape/collective.hpp"

namespace plumbline::nccl {

/// Calls of a collective one after the other, on nodes of `per_node` GPUs; none where its ranks stand in one node, or each in
/// its own. Throws BadInput where nodes hold unequal numbers of its ranks.
std::vector<Collective> calls_in_levels(const Collective& whole, std::int64_t per_node);

}  // namespace plumbline::nccl
