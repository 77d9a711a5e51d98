#include "arch/fabric/cluster.hpp"

#include <array>
#include <cmath>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/format.hpp"
#include "arch/gpu/gpu.hpp"
#include "arch/json_reader.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::pair<std::string_view, IntraNodeLink>, 4> kLinks{
    {{"nvswitch", IntraNodeLink::nvswitch},
     {"nvlink_bridge", IntraNodeLink::nvlink_bridge},
     {"pcie", IntraNodeLink::pcie},
     {"infinity_fabric", IntraNodeLink::infinity_fabric}}};

std::string cluster_folder() { return data_folder() + "/clusters"; }

IntraNodeLink read_link(const JsonValue& value) {
  const std::string text = value.as_string();
  std::vector<std::string> names;
  for (const auto& [name, link] : kLinks) {
    if (name == text) return link;
    names.emplace_back(name);
  }
  value.fail("expected nvswitch, nvlink_bridge, pcie or infinity_fabric, found '" + text.substr(0, 60) + "'" +
             did_you_mean(text, names));
}

std::int64_t read_count(const JsonValue& value) {
  constexpr std::int64_t kMost = 1'000'000;
  const std::int64_t count = value.as_integer();
  if (count < 1 || count > kMost) value.fail("expected a count from 1 to a million, found " + value.dump());
  return count;
}

template <class T>
T not_negative(const JsonValue& value, T quantity, T one) {
  const double number = quantity.in(one);
  if (!std::isfinite(number) || number < 0)
    value.fail("expected a quantity that is not negative, found " + value.dump());
  return quantity;
}

/// What the GPUs themselves carry one way is the most that a node can give each of them; brochures print both ways.
void check_intra(const JsonValue& value, const Cluster& cluster, const Gpu& gpu) {
  const bool pcie = cluster.intra_node == IntraNodeLink::pcie;
  const Bandwidth port = pcie ? gpu.links.pcie_per_direction : gpu.links.nvlink_per_direction;
  if (port == Bandwidth()) value.fail("expected a link that " + gpu.name + " has; it has none of that kind");
  const double ratio = cluster.intra_bandwidth / port;
  constexpr double kRounding = 1.02;  // "64 GB/s" for 63.015
  if (ratio <= kRounding) return;
  const std::string found = "expected at most " + format(port) + ", one direction of " + gpu.name + ", found " +
                            format(cluster.intra_bandwidth);
  value.fail((std::abs(ratio - 2.0) <= 0.1 ? "two-way rate: " : "") + found);
}

/// `network_gbit_per_s` is the line rate a GPU has; an eighth of it, in bytes, is one direction.
void check_network(const JsonValue& root, const Cluster& cluster) {
  const auto line = root.find("network_gbit_per_s");
  if (!line) return;
  const double gbit = line->as_number();
  if (!(gbit >= 0)) line->fail("expected a line rate that is not negative, found " + line->dump());
  const Bandwidth one_way = gbit / 8.0 * units::GB_per_s;
  constexpr double kRounding = 1.02;
  if (cluster.network_bandwidth <= one_way * kRounding) return;
  root.at("network_bandwidth")
      .fail("two-way rate (or bits for bytes): expected at most " + format(one_way) + ", one direction of " +
            format(gbit) + " Gbit/s, found " + format(cluster.network_bandwidth));
}

std::string stated_source(const JsonValue& root, const std::string& pointer, const std::string& place) {
  if (const auto sources = root.find("sources")) {
    if (const auto text = sources->find(pointer)) return text->as_string();
  }
  const auto source = root.find("source");
  return source ? source->as_string() : place + " (no source given)";
}

void read_sources(const JsonValue& root, const std::string& place, Cluster& cluster) {
  const std::vector<std::string> numbers{"gpus_per_node",     "nodes",           "intra_bandwidth",
                                         "intra_latency",     "network_latency", "network_bandwidth",
                                         "network_gbit_per_s"};
  std::vector<std::string> pointers;
  for (const std::string& key : numbers) {
    pointers.push_back(std::string("/").append(key));
    if (root.has(key)) cluster.sources[pointers.back()] = stated_source(root, pointers.back(), place);
  }
  const auto sources = root.find("sources");
  if (!sources) return;
  if (!sources->is_object()) sources->fail("expected an object of descriptor paths");
  for (const std::string& key : sources->keys()) {
    if (cluster.sources.count(key) == 0) {
      throw BadInput(sources->place() + ": unknown path '" + key.substr(0, 60) + "'" + did_you_mean(key, pointers));
    }
  }
}

}  // namespace

Cluster parse_cluster(const std::string& json_text, const std::string& place) {
  const JsonDocument document = JsonDocument::parse(json_text, place);
  const JsonValue root = document.root();
  root.refuse_unknown_keys({"name", "title", "gpu", "gpus_per_node", "nodes", "intra_node", "intra_bandwidth",
                            "intra_latency", "network_bandwidth", "network_latency", "network_gbit_per_s", "source",
                            "sources"});
  Cluster cluster;
  cluster.name = root.at("name").as_string();
  cluster.title = root.has("title") ? root.at("title").as_string() : cluster.name;
  const JsonValue gpu_name = root.at("gpu");
  std::optional<Gpu> gpu;
  try {
    gpu = load_gpu(gpu_name.as_string());
  } catch (const BadInput& e) {
    gpu_name.fail(e.what());
  }
  cluster.gpu = looks_like_path(gpu_name.as_string()) ? gpu_name.as_string() : gpu->name;
  cluster.gpus_per_node = read_count(root.at("gpus_per_node"));
  cluster.nodes = read_count(root.at("nodes"));
  cluster.intra_node = read_link(root.at("intra_node"));
  const JsonValue intra = root.at("intra_bandwidth");
  cluster.intra_bandwidth = not_negative(intra, intra.as_bandwidth(), units::B_per_s);
  if (cluster.intra_bandwidth == Bandwidth()) intra.fail("expected a rate above zero, found " + intra.dump());
  cluster.intra_latency = not_negative(root.at("intra_latency"), root.at("intra_latency").as_seconds(), units::s);
  if (const auto network = root.find("network_bandwidth")) {
    cluster.network_bandwidth = not_negative(*network, network->as_bandwidth(), units::B_per_s);
    const JsonValue latency = root.at("network_latency");
    cluster.network_latency = not_negative(latency, latency.as_seconds(), units::s);
  }
  if (cluster.nodes > 1 && cluster.network_bandwidth == Bandwidth()) {
    root.fail("expected a network_bandwidth above zero between " + std::to_string(cluster.nodes) + " nodes");
  }
  check_intra(intra, cluster, *gpu);
  check_network(root, cluster);
  read_sources(root, place, cluster);
  return cluster;
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
    if (name != wanted) continue;
    const std::string path = cluster_folder() + "/" + name + ".json";
    return parse_cluster(read_text_file(path), path);
  }
  throw BadInput("unknown cluster '" + name_or_path.substr(0, 60) +
                 "': expected a name from `list clusters` or a descriptor file" + did_you_mean(wanted, known));
}

std::vector<std::string> cluster_names() { return data_names("clusters"); }

}  // namespace plumbline
