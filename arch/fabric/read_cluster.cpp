// The file format of clusters: data/clusters/*.json.
#include <algorithm>
#include <array>
#include <cmath>

#include "arch/error.hpp"
#include "arch/fabric/cluster.hpp"
#include "arch/files.hpp"
#include "arch/format.hpp"
#include "arch/gpu/gpu.hpp"
#include "arch/json_reader.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(LinkKind::count_)> kNames{
    "nvswitch", "nvlink_bridge", "infinity_fabric", "pcie", "infiniband", "ethernet", "efa", "c2c"};

/// "64 GB/s" for 63.015: what brochures round.
constexpr double kRounding = 1.02;

LinkKind read_kind(const JsonValue& value) {
  const std::string text = value.as_string();
  std::string all;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<LinkKind>(i);
    all += (i == 0 ? "" : ", ") + std::string(kNames[i]);
  }
  value.fail("expected one of " + all + ", found '" + text.substr(0, 60) + "'" +
             did_you_mean(text, {kNames.begin(), kNames.end()}));
}

std::int64_t read_count(const JsonValue& value) {
  constexpr std::int64_t kMost = 1'000'000;
  const std::int64_t count = value.as_integer();
  if (count < 1 || count > kMost) value.fail("expected a count from 1 to a million, found " + value.dump());
  return count;
}

Bandwidth read_rate(const JsonValue& value) {
  const Bandwidth rate = value.as_bandwidth();
  if (!std::isfinite(rate.in(units::B_per_s)) || rate <= Bandwidth()) {
    value.fail("expected a rate above zero, found " + value.dump());
  }
  return rate;
}

Seconds read_latency(const JsonValue& value) {
  const Seconds latency = value.as_seconds();
  if (!std::isfinite(latency.in(units::s)) || latency < Seconds()) {
    value.fail("expected a latency that is not negative, found " + value.dump());
  }
  return latency;
}

/// Refuses a rate above `most`, and says so where it is the sum of both directions.
void at_most(const JsonValue& value, Bandwidth found, Bandwidth most, const std::string& of) {
  const double ratio = found / most;
  if (ratio <= kRounding) return;
  value.fail((std::abs(ratio - 2.0) <= 0.1 ? "two-way rate: " : "") + ("expected at most " + format(most)) +
             ", one direction of " + of + ", found " + format(found));
}

/// What the GPUs' own ports carry one way is the most that a tier of them can give each.
void check_port(const JsonValue& value, LinkKind kind, Bandwidth found, const Gpu& gpu) {
  const bool pcie = kind == LinkKind::pcie;
  const Bandwidth port = pcie ? gpu.links.pcie_per_direction : gpu.links.nvlink_per_direction;
  if (port == Bandwidth()) value.fail("expected a link that " + gpu.name + " has; it has none of that kind");
  at_most(value, found, port, gpu.name);
}

/// `line_rate_gbit_per_s` is what a GPU's network ports are sold as; an eighth of it, in bytes, is one direction.
void check_line_rate(const JsonValue& tier, Bandwidth found) {
  const auto line = tier.find("line_rate_gbit_per_s");
  if (!line) return;
  const double gbit = line->as_number();
  if (!(gbit > 0)) line->fail("expected a line rate above zero, found " + line->dump());
  at_most(tier.at("bandwidth"), found, gbit / 8.0 * units::GB_per_s, format(gbit) + " Gbit/s");
}

FabricTier read_tier(const JsonValue& value, const Gpu& gpu) {
  value.refuse_unknown_keys({"name", "kind", "gpus", "links", "bandwidth", "latency", "oversubscription", "multicast",
                             "in_network_reduction", "line_rate_gbit_per_s"});
  FabricTier tier;
  tier.name = value.at("name").as_string();
  tier.kind = read_kind(value.at("kind"));
  if (tier.kind == LinkKind::c2c) value.at("kind").fail("expected a link between GPUs, found 'c2c', a host link");
  if (const auto gpus = value.find("gpus")) tier.gpus = read_count(*gpus);
  if (const auto links = value.find("links")) tier.links = read_count(*links);
  tier.bandwidth = read_rate(value.at("bandwidth"));
  tier.latency = read_latency(value.at("latency"));
  if (const auto ratio = value.find("oversubscription")) {
    tier.oversubscription = ratio->as_number();
    if (tier.oversubscription < 1) ratio->fail("expected a ratio of at least 1, found " + ratio->dump());
  }
  tier.multicast = value.find_bool("multicast").value_or(false);
  tier.in_network_reduction = value.find_bool("in_network_reduction").value_or(false);
  if (is_gpu_link(tier.kind)) check_port(value.at("bandwidth"), tier.kind, tier.bandwidth, gpu);
  check_line_rate(value, tier.bandwidth);
  return tier;
}

void read_tiers(const JsonValue& list, const Gpu& gpu, Cluster& cluster) {
  constexpr std::size_t kMostTiers = 8;
  if (!list.is_array() || list.size() == 0 || list.size() > kMostTiers) {
    list.fail("expected a list of 1 to 8 tiers, the innermost first");
  }
  for (const JsonValue& value : list.elements()) {
    const FabricTier tier = read_tier(value, gpu);
    const bool any_number = tier.gpus == 0 && !cluster.tiers.empty() && cluster.tiers.size() + 1 == list.size();
    if (!any_number) value.at("gpus");  // how many a node has must be known
    if (!cluster.tiers.empty() && !any_number) {
      const FabricTier& below = cluster.tiers.back();
      if (tier.gpus % below.gpus != 0 || tier.gpus == below.gpus) {
        value.at("gpus").fail("expected several times the " + std::to_string(below.gpus) + " GPUs of '" + below.name +
                              "' below it, found " + std::to_string(tier.gpus));
      }
    }
    cluster.tiers.push_back(tier);
  }
}

/// Without a "host" the GPU's own PCIe port, alone.
void read_host(const JsonValue& root, const Gpu& gpu, Cluster& cluster) {
  cluster.host.bandwidth = gpu.links.pcie_per_direction;
  const auto host = root.find_object("host");
  if (!host) return;
  host->refuse_unknown_keys({"kind", "bandwidth", "gpus_a_port"});
  cluster.host.kind = read_kind(host->at("kind"));
  if (cluster.host.kind != LinkKind::pcie && cluster.host.kind != LinkKind::c2c) {
    host->at("kind").fail("expected pcie or c2c, found '" + std::string(name(cluster.host.kind)) + "'");
  }
  cluster.host.bandwidth = read_rate(host->at("bandwidth"));
  if (cluster.host.kind == LinkKind::pcie) {
    check_port(host->at("bandwidth"), LinkKind::pcie, cluster.host.bandwidth, gpu);
  }
  if (const auto sharers = host->find("gpus_a_port")) cluster.host.gpus_a_port = read_count(*sharers);
}

void read_storage(const JsonValue& root, Cluster& cluster) {
  const auto list = root.find_list("storage");
  if (!list) return;
  for (const JsonValue& value : list->elements()) {
    value.refuse_unknown_keys({"name", "read_per_node"});
    cluster.storage.push_back({value.at("name").as_string(), read_rate(value.at("read_per_node"))});
  }
}

/// Where nothing is described, `sources` may say why: what the buyer chooses, what has no published rate.
constexpr const char* kNoStorage = "/storage";

/// Paths of all numbers below `value`, and of its flags.
void collect_paths(const JsonValue& value, std::vector<std::string>& out) {
  if (value.is_array()) {
    for (const JsonValue& each : value.elements()) collect_paths(each, out);
  } else if (value.is_object()) {
    for (const std::string& key : value.keys()) {
      if (key != "name" && key != "kind" && value.has(key)) collect_paths(value.at(key), out);
    }
  } else {
    out.push_back(value.path());
  }
}

void read_sources(const JsonValue& root, const std::string& place, Cluster& cluster) {
  std::vector<std::string> paths;
  for (const char* part : {"tiers", "host", "storage"}) {
    if (const auto value = root.find(part)) collect_paths(*value, paths);
  }
  const auto source = root.find_string("source");
  for (const std::string& path : paths) cluster.sources[path] = source.value_or(place + " (no source given)");
  const auto own = root.find_object("sources");
  if (!own) return;
  for (const std::string& key : own->keys()) {
    const bool says_why_not = key == kNoStorage && cluster.storage.empty();
    if (cluster.sources.count(key) == 0 && !says_why_not) {
      throw BadInput(own->place() + ": unknown path '" + key.substr(0, 60) + "'" + did_you_mean(key, paths));
    }
    cluster.sources[key] = own->at(key).as_string();
  }
}

}  // namespace

std::string_view name(LinkKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

bool is_gpu_link(LinkKind kind) {
  return kind == LinkKind::nvswitch || kind == LinkKind::nvlink_bridge || kind == LinkKind::infinity_fabric ||
         kind == LinkKind::pcie;
}

Cluster parse_cluster(const std::string& json_text, const std::string& place) {
  const JsonDocument document = JsonDocument::parse(json_text, place);
  const JsonValue root = document.root();
  root.refuse_unknown_keys({"name", "title", "gpu", "tiers", "host", "storage", "source", "sources"});
  Cluster cluster;
  cluster.name = root.at("name").as_string();
  cluster.title = root.find_string("title").value_or(cluster.name);
  const JsonValue gpu_name = root.at("gpu");
  std::optional<Gpu> gpu;
  try {
    gpu = load_gpu(gpu_name.as_string());
  } catch (const BadInput& e) {
    gpu_name.fail(e.what());
  }
  cluster.gpu = looks_like_path(gpu_name.as_string()) ? gpu_name.as_string() : gpu->name;
  cluster.gpu_links = gpu->links;
  read_tiers(root.at("tiers"), *gpu, cluster);
  read_host(root, *gpu, cluster);
  read_storage(root, cluster);
  read_sources(root, place, cluster);
  return cluster;
}

}  // namespace plumbline
