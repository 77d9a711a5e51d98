// Several GPUs: how many in a node, what joins them inside it, and what joins the nodes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "arch/units.hpp"

namespace plumbline {

enum class IntraNodeLink { nvswitch, nvlink_bridge, pcie, infinity_fabric };

struct Cluster {
  std::string name, title;
  std::string gpu;  ///< short name of the GPU descriptor
  std::int64_t gpus_per_node = 0;
  std::int64_t nodes = 0;  ///< as delivered; a study may ask for more
  IntraNodeLink intra_node = IntraNodeLink::nvswitch;
  Bandwidth intra_bandwidth;  ///< per GPU, one direction, wire
  Seconds intra_latency;
  Bandwidth network_bandwidth;  ///< per GPU, one direction (0 = single node)
  Seconds network_latency;
  std::map<std::string, std::string> sources;
};

/// By short name or path; throws BadInput like load_gpu. A two-way link rate is refused.
Cluster load_cluster(const std::string& name_or_path);
Cluster parse_cluster(const std::string& json_text, const std::string& place);
std::vector<std::string> cluster_names();

}  // namespace plumbline
