// Several GPUs and what joins them: a fabric in tiers, the innermost first (GPUs of a node, nodes of a network), and the
// way to the host and its storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "arch/gpu/gpu.hpp"
#include "arch/units.hpp"

namespace plumbline {

enum class LinkKind : std::uint8_t {
  nvswitch,         ///< NVLink through switches: any GPU to any other at the full rate
  nvlink_bridge,    ///< NVLink between neighbours
  infinity_fabric,  ///< all to all, a link for each pair
  pcie,             ///< peer to peer through PCIe switches or host bridges
  infiniband,
  ethernet,  ///< RoCE
  efa,       ///< Elastic Fabric Adapter
  c2c,       ///< NVLink-C2C between a GPU and its host
  count_
};
std::string_view name(LinkKind kind);
/// The GPUs' own ports, which bound what a tier can carry.
bool is_gpu_link(LinkKind kind);

/// One level of the fabric: it joins whole groups of the tier below.
struct FabricTier {
  std::string name;  ///< "nvlink", "network"
  LinkKind kind = LinkKind::nvswitch;
  std::int64_t gpus =
      0;  ///< that it joins; of the outermost tier: as delivered, a study may ask for more; 0: not stated
  std::int64_t links = 0;             ///< a GPU: NVLinks, rails; 0: not stated
  Bandwidth bandwidth;                ///< a GPU, all its links, one direction, wire
  Seconds latency;                    ///< one hop
  double oversubscription = 1;        ///< rate into the tier / rate across its middle, at least 1
  bool multicast = false;             ///< switches copy one store to many GPUs, and the GPUs' software may use it
  bool in_network_reduction = false;  ///< switches add

  /// What half of `ranks` GPUs of this tier can send to the other half, one direction.
  Bandwidth bisection(std::int64_t ranks) const {
    const std::int64_t half = ranks / 2;
    return static_cast<double>(half) * bandwidth / oversubscription;
  }
};

/// The way between a GPU and its host.
struct HostLink {
  LinkKind kind = LinkKind::pcie;
  Bandwidth bandwidth;           ///< a GPU alone, one direction, wire
  std::int64_t gpus_a_port = 1;  ///< GPUs that share one port of the host, and its bandwidth
};

/// What weights are read from.
struct Storage {
  std::string name;         ///< "local disk", "network storage"
  Bandwidth read_per_node;  ///< sustained
};

struct Cluster {
  std::string name, title;
  std::string gpu;                ///< short name of the GPU descriptor
  GpuLinks gpu_links;             ///< its ports, as that descriptor has them
  std::vector<FabricTier> tiers;  ///< at least one, innermost first
  HostLink host;
  std::vector<Storage> storage;                ///< none: not described
  std::map<std::string, std::string> sources;  ///< of each number, by its path: "/tiers/0/bandwidth"

  const FabricTier& inner() const { return tiers.front(); }
  std::int64_t gpus_per_node() const { return tiers.front().gpus; }
  /// Index of the innermost tier that joins `gpus` neighbouring ranks. The outermost one joins any number.
  std::size_t tier_of(std::int64_t gpus) const;
};

/// By short name or path; throws BadInput like load_gpu. A two-way link rate is refused.
Cluster load_cluster(const std::string& name_or_path);
Cluster parse_cluster(const std::string& json_text, const std::string& place);
std::vector<std::string> cluster_names();
/// Of a GPU whose descriptor names no cluster: eight of it, joined by switches at the full rate of its GPU links, or by
/// PCIe where it has none; nothing beyond them. Its sources say that it is assumed.
Cluster assumed_cluster(const Gpu& gpu);

}  // namespace plumbline
