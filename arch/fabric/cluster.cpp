#include "arch/fabric/cluster.hpp"

#include <algorithm>

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

std::optional<std::string> cluster_of(const std::string& gpu) {
  std::optional<std::string> found;
  std::int64_t most = 0;
  for (const std::string& name : cluster_names()) {
    const Cluster cluster = load_cluster(name);
    const std::int64_t gpus = std::max(cluster.gpus_per_node(), cluster.tiers.back().gpus);
    if (cluster.gpu != gpu || gpus <= most) continue;
    most = gpus;
    found = name;
  }
  return found;
}

}  // namespace plumbline
