// The page of a fabric as JSON: SI units, the unit at the end of the key, and the source of every number.
#include <nlohmann/json.hpp>

#include "model/report/json_parts.hpp"
#include "model/report/several_gpus/cluster_page.hpp"

namespace plumbline {
namespace {

Json json_of(const CollectiveFigure& f) {
  Json row{{"op", f.op}, {"gpus", f.gpus}, {"bytes", f.bytes}};
  if (!f.error.empty()) {
    row["error"] = f.error;
    return row;
  }
  row["latency_s"] = f.time.in(units::s);
  row["latency_low_s"] = f.low.in(units::s);
  row["latency_high_s"] = f.high.in(units::s);
  row["bus_B_per_s"] = f.bus.in(units::B_per_s);
  row["kernel"] = f.kernel;
  row["provenance"] = std::string(name(f.provenance));
  return row;
}

Json json_of(const FabricTier& t) {
  return {{"name", t.name},
          {"kind", std::string(name(t.kind))},
          {"gpus", t.gpus},
          {"bandwidth_B_per_s", t.bandwidth.in(units::B_per_s)},
          {"bisection_B_per_s", t.bisection(t.gpus).in(units::B_per_s)},
          {"latency_s", t.latency.in(units::s)},
          {"oversubscription", t.oversubscription},
          {"multicast", t.multicast},
          {"in_network_reduction", t.in_network_reduction}};
}

}  // namespace

std::string cluster_page_json(const ClusterPage& page) {
  const Cluster& c = page.cluster;
  Json tiers = Json::array(), storage = Json::array(), figures = Json::array();
  for (const FabricTier& t : c.tiers) tiers.push_back(json_of(t));
  for (const Storage& s : c.storage) {
    storage.push_back({{"name", s.name}, {"read_B_per_s_per_node", s.read_per_node.in(units::B_per_s)}});
  }
  for (const CollectiveFigure& f : page.collectives) figures.push_back(json_of(f));
  const Json out{
      {"schema", "plumbline.cluster.v1"},
      {"cluster", c.name},
      {"title", c.title},
      {"gpu", c.gpu},
      {"gpus_per_node", c.gpus_per_node()},
      {"tiers", tiers},
      {"host",
       {{"kind", std::string(name(c.host.kind))},
        {"bandwidth_B_per_s", c.host.bandwidth.in(units::B_per_s)},
        {"gpus_a_port", c.host.gpus_a_port}}},
      {"storage", storage},
      {"stack", page.stack},
      {"collectives", figures},
      {"link_energy_J_per_bit", page.link_energy_a_bit ? Json(page.link_energy_a_bit->in(units::J)) : Json(nullptr)},
      {"notes", page.notes},
      {"sources", c.sources}};
  return out.dump(2) + "\n";
}

}  // namespace plumbline
