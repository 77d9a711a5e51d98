#include "model/report/several_gpus/cluster_page.hpp"

#include <array>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "model/predict.hpp"
#include "model/report/listing.hpp"
#include "model/stacks/stack.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {
namespace {

using enum Columns::Align;

constexpr std::array kKinds{CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                            CollectiveKind::all_to_all};
constexpr std::array<std::int64_t, 5> kSizes{1024, 65536, 1 << 20, 64 << 20, 1 << 30};

CollectiveFigure figure_of(CollectiveKind kind, std::int64_t gpus, std::int64_t bytes, const Machine& machine,
                           Predictor& predictor) {
  CollectiveFigure f;
  f.op = name(kind);
  f.gpus = gpus;
  f.bytes = bytes;
  const Collective shape{kind, bytes, gpus, DType::bf16};
  try {
    OpPrediction p;
    predictor.predict(shape, machine, p, {.alone = true});
    f.kernel = p.launches.front().kernel;
    f.time = p.time;
    f.low = p.low;
    f.high = p.high;
    f.provenance = p.provenance;
    const double ranks = static_cast<double>(gpus), passes = kind == CollectiveKind::all_reduce ? 2 : 1;
    f.bus = passes * (ranks - 1) / ranks * static_cast<double>(bytes) * units::B / p.time;
  } catch (const NotModelled& none) {
    f.error = none.what();
  }
  return f;
}

bool has_network(const Cluster& c) { return c.tiers.size() > 1; }

std::vector<std::int64_t> counts_of(const Cluster& c) {
  std::vector<std::int64_t> counts{c.gpus_per_node()};
  if (has_network(c)) counts.push_back(2 * c.gpus_per_node());
  return counts;
}

std::string yes(bool answer) { return answer ? "yes" : "no"; }

Listing tiers_of(const Cluster& c) {
  Listing list({{"tier", "tier"},
                {"kind", "kind"},
                {"gpus", "gpus", right},
                {"each way, a GPU", "bandwidth_B_per_s", right},
                {"bisection", "bisection_B_per_s", right},
                {"one hop", "latency_s", right},
                {"multicast", "multicast"},
                {"adds", "in_network_reduction"}});
  for (const FabricTier& t : c.tiers) {
    const Bandwidth bisection = t.bisection(t.gpus);
    list.add({t.name,
              std::string(name(t.kind)),
              {std::to_string(t.gpus), static_cast<double>(t.gpus)},
              {format(t.bandwidth), t.bandwidth.in(units::B_per_s)},
              {format(bisection), bisection.in(units::B_per_s)},
              {format(t.latency), t.latency.in(units::s)},
              yes(t.multicast),
              yes(t.in_network_reduction)});
  }
  return list;
}

std::string measured(const CollectiveFigure& f) { return std::string(name(f.provenance)); }

Listing collectives_of(const ClusterPage& page) {
  Listing list({{"collective", "op"},
                {"gpus", "gpus", right},
                {"bytes", "bytes", right},
                {"time", "latency_s", right},
                {"5-95 % band", "band"},
                {"bus bandwidth", "bus_B_per_s", right},
                {"kernel", "kernel"},
                {"provenance", "provenance"}});
  for (const CollectiveFigure& f : page.collectives) {
    if (!f.error.empty()) continue;
    list.add({f.op,
              {std::to_string(f.gpus), static_cast<double>(f.gpus)},
              {format_binary(static_cast<double>(f.bytes) * units::B), static_cast<double>(f.bytes)},
              {format(f.time), f.time.in(units::s)},
              format(f.low) + " to " + format(f.high),
              {format(f.bus), f.bus.in(units::B_per_s)},
              f.kernel,
              measured(f)});
  }
  return list;
}

std::string host_line(const Cluster& c) {
  std::string text =
      "  host            " + std::string(name(c.host.kind)) + ", " + format(c.host.bandwidth) + " each way a GPU alone";
  if (c.host.gpus_a_port > 1) text += ", " + std::to_string(c.host.gpus_a_port) + " GPUs share a port";
  return text + "\n";
}

std::string storage_lines(const Cluster& c) {
  if (c.storage.empty()) {
    const auto why = c.sources.find("/storage");
    return "  storage         " + (why == c.sources.end() ? "not described" : why->second) + "\n";
  }
  std::string text;
  for (const Storage& s : c.storage)
    text += "  storage         " + s.name + ", " + format(s.read_per_node) + " read a node\n";
  return text;
}

std::optional<Joules> energy_of_a_bit(const Rates& m) {
  const LinkKind kind = m.fabric->inner().kind;
  const bool nvlink = kind == LinkKind::nvswitch || kind == LinkKind::nvlink_bridge;
  if (!m.power || !nvlink || !(m.power->link * (1.0 * units::B) > Joules{})) return {};
  return m.power->link * (1.0 * units::B) / 8.0;
}

}  // namespace

ClusterPage cluster_page(const Machine& machine) {
  ClusterPage page;
  page.cluster = *machine.rates().fabric;
  page.stack = machine.stack().name;
  Predictor predictor;
  for (const std::int64_t gpus : counts_of(page.cluster)) {
    for (const CollectiveKind kind : kKinds) {
      for (const std::int64_t bytes : kSizes)
        page.collectives.push_back(figure_of(kind, gpus, bytes, machine, predictor));
    }
  }
  page.notes.emplace_back(
      "bandwidths of tiers are the wire's, one direction; the shortest collective is the latency floor");
  page.link_energy_a_bit = energy_of_a_bit(machine.rates());
  if (page.link_energy_a_bit) {
    page.notes.push_back(
        "a bit sent over NVLink takes " + format(*page.link_energy_a_bit) +
        ", both ends' way through L2 with it: of boards' power on two H200, carried over to other cards");
  } else {
    page.notes.emplace_back(
        "energy of a bit on the links: never measured here, and no source gives it for these parts");
  }
  if (!page.collectives.empty() && !page.collectives.front().error.empty()) {
    page.notes.push_back(page.collectives.front().error);
  }
  return page;
}

std::string cluster_page_table(const ClusterPage& page, const TextStyle& style) {
  const Cluster& c = page.cluster;
  std::string text = c.name + ": " + c.title + "\n";
  text += "  GPU             " + c.gpu + ", " + std::to_string(c.gpus_per_node()) + " a node\n";
  text += host_line(c) + storage_lines(c) + "\n" + tiers_of(c).table(style) + "\n";
  text += "collectives, kernels of stack " + page.stack + ", captured in a graph, ranks in step\n";
  text += collectives_of(page).table(style) + "\n";
  for (const std::string& note : page.notes) text += "  - " + note + "\n";
  return text;
}

}  // namespace plumbline
