#include "arch/fabric/cluster.hpp"

#include "arch/error.hpp"
#include "arch/files.hpp"

namespace plumbline {
namespace {

std::string cluster_file(const std::string& name) { return data_folder() + "/clusters/" + name + ".json"; }

}  // namespace

std::size_t Cluster::tier_of(std::int64_t ranks) const {
  std::size_t tier = 0;
  while (tier + 1 < tiers.size() && tiers[tier].gpus < ranks) ++tier;
  return tier;
}

Cluster load_cluster(const std::string& name_or_path) {
  if (looks_like_path(name_or_path)) return parse_cluster(read_text_file(name_or_path), name_or_path);
  const std::vector<std::string> known = cluster_names();
  std::string wanted = name_or_path;
  for (char& c : wanted) {
    if (c == '-' || c == ' ') c = '_';
    else if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (const std::string& name : known) {
    if (name == wanted) return parse_cluster(read_text_file(cluster_file(name)), cluster_file(name));
  }
  throw BadInput("unknown cluster '" + name_or_path.substr(0, 60) +
                 "': expected a name from `list clusters` or a descriptor file" + did_you_mean(wanted, known));
}

std::vector<std::string> cluster_names() { return data_names("clusters"); }

Cluster assumed_cluster(const Gpu& gpu) {
  const bool nvlink = gpu.links.nvlink_per_direction > Bandwidth{};
  Cluster cluster;
  cluster.name = "8 x " + gpu.name;
  cluster.title =
      cluster.name + ", " + (nvlink ? "joined by switches at the full rate of its links" : "PCIe") + ", assumed";
  cluster.gpu = gpu.name;
  cluster.gpu_links = gpu.links;
  FabricTier tier;
  tier.name = nvlink ? "nvlink" : "pcie";
  tier.kind = nvlink ? LinkKind::nvswitch : LinkKind::pcie;
  tier.gpus = 8;
  tier.bandwidth = nvlink ? gpu.links.nvlink_per_direction : gpu.links.pcie_per_direction;
  tier.latency = (nvlink ? 0.6 : 1.0) * units::us;
  cluster.tiers.push_back(tier);
  cluster.host.bandwidth = gpu.links.pcie_per_direction;
  cluster.sources["/tiers/0"] = "assumed: the descriptor of " + gpu.name + " names no cluster";
  return cluster;
}

}  // namespace plumbline
