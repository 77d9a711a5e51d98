// What follows from a fabric: its tiers, what half of its GPUs can send to the other half, and what collectives reach.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arch/fabric/cluster.hpp"
#include "model/machine.hpp"
#include "model/report/columns.hpp"
#include "model/types.hpp"

namespace plumbline {

struct CollectiveFigure {
  std::string op, kernel;
  std::int64_t gpus = 0, bytes = 0;
  Seconds time, low, high;
  Bandwidth bus;  ///< nccl-tests' bus bandwidth
  Provenance provenance = Provenance::never_measured;
  std::string error;  ///< why there is no time
};

struct ClusterPage {
  Cluster cluster;
  std::string stack;
  std::vector<CollectiveFigure> collectives;  ///< by ranks, then operator, then bytes
  /// Sent over NVLink, both ends' way through L2 with it, as powers of boards show (PowerScalars::link); none by other links.
  std::optional<Joules> link_energy_a_bit;
  std::vector<std::string> notes;
};

/// Collectives of `machine`, which must have a fabric, called by nobody: among the GPUs of a node, and of two nodes where
/// something joins them.
ClusterPage cluster_page(const Machine& machine);

std::string cluster_page_table(const ClusterPage& page, const TextStyle& style);
std::string cluster_page_json(const ClusterPage& page);

}  // namespace plumbline
