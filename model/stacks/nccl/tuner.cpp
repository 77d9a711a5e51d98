#include "model/stacks/nccl/tuner.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "arch/error.hpp"

namespace plumbline::nccl {
namespace {

constexpr std::size_t kProtocols = 3;
using ByProtocol = std::array<double, kProtocols>;  // LL, LL128, Simple

constexpr std::size_t index(Protocol p) { return static_cast<std::size_t>(p); }
constexpr std::size_t index(Algorithm a) { return static_cast<std::size_t>(a); }
constexpr std::size_t index(Architecture a) { return static_cast<std::size_t>(a); }

// Microseconds, by algorithm in its order.
constexpr std::size_t kAlgorithms = 7;
using ByAlgorithm = std::array<ByProtocol, kAlgorithms>;
constexpr ByAlgorithm kBase{
    {{6.6, 14.0, 8.4}, {6.8, 14.0, 8.4}, {0, 0, 0}, {8, 8, 8}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}}};
constexpr ByAlgorithm kNvlinkHop{
    {{0.6, 1.9, 3.4}, {0.6, 1.25, 4.0}, {0, 0, 25}, {0, 0, 4.0}, {0, 0, 25}, {0, 0, 3.7}, {0, 0, 2.8}}};
constexpr ByAlgorithm kPcieHop{
    {{1.0, 2.5, 5.7}, {1.0, 1.9, 4.0}, {0, 0, 0}, {0, 0, 4.0}, {0, 0, 0}, {0, 0, 3.7}, {0, 0, 2.8}}};
constexpr ByAlgorithm kNetworkHop{
    {{2.7, 4.0, 14.0}, {5.0, 8.5, 14.0}, {0, 0, 18}, {0, 0, 14}, {0, 0, 14}, {0, 0, 31}, {0, 0, 30}}};

// GB/s, by architecture, on 1, 2 and more nodes.
using ByNodes = std::array<double, 3>;
constexpr std::array<ByNodes, 4> kLlMost{
    {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}}};
constexpr std::array<ByNodes, 4> kRingLl128PerChannel{
    {{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 36.7}, {73.4, 73.4, 73.4}}};
constexpr std::array<ByNodes, 4> kTreeLl128PerChannel{
    {{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}}};
constexpr std::array<ByNodes, 4> kTreePerChannel{
    {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}}};
constexpr std::array<double, 4> kNvlsEfficiency{0, 0, 0.85, 0.74};
constexpr std::array<ByNodes, 4> kNvlsTreePerChannel{
    {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96.0, 43.1}}};

// "Trees are not perfectly sticking to the model for medium sizes": powers of two from 64 B.
constexpr std::array<std::array<double, 23>, kProtocols> kTreeCorrection{
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}}};

constexpr ByProtocol kMostThreads{512, 640, 512};
constexpr ByProtocol kThreadThreshold{8, 8, 64};  // bytes a thread below which channels, then threads, are taken off

std::size_t nodes_row(double nodes) { return nodes <= 1 ? 0 : nodes <= 2 ? 1 : 2; }

/// LL's limit beyond one node is of the host's processor, not of the GPU: Intel's row is taken.
double ll_most(const Group& g) { return kLlMost[g.nodes <= 1 ? index(g.architecture) : 0][nodes_row(g.nodes)]; }

double bus_bandwidth(Algorithm a, Protocol p, const Group& g) {
  const Rings rings = rings_of(g);
  const double bus = rings.bus.in(units::GB_per_s), row = static_cast<double>(nodes_row(g.nodes));
  const auto per_channel = [&](const std::array<ByNodes, 4>& table) {
    return rings.channels * table[index(g.architecture)][static_cast<std::size_t>(row)];
  };
  if (a == Algorithm::ring) {
    if (p == Protocol::ll) return std::min(ll_most(g), 0.5 * bus);
    return p == Protocol::ll128 ? std::min(0.92 * bus, per_channel(kRingLl128PerChannel)) : bus;
  }
  const double tree = std::min(0.92 * bus, per_channel(kTreePerChannel));
  if (p == Protocol::ll) return std::min(tree / 3.8, ll_most(g));
  if (p == Protocol::simple) return tree;
  return std::min(tree * (g.nodes <= 1 ? 7.0 / 9.0 : 120.0 / 128.0), per_channel(kTreeLl128PerChannel));
}

double latency_us(CollectiveKind kind, Algorithm a, Protocol p, const Group& g) {
  // a broadcast's hop of Simple holds part of a chunk: NCCL takes the tree's
  const bool by_tree = kind == CollectiveKind::broadcast && p == Protocol::simple;
  const double base = kBase[index(a)][index(p)];
  const double hop = reckoned_hop(by_tree ? Algorithm::tree : a, p, g.path).in(units::us);
  const double network = reckoned_network_hop(g, a, p).in(units::us);
  if (a == Algorithm::tree) {
    return base + 2 * ((g.ranks_per_node() - 1) * hop + std::floor(std::log2(g.nodes)) * network);
  }
  const double steps = ring_steps(kind, g.ranks), between = ring_network_steps(kind, g.nodes);
  constexpr double kHostPost = 1;  // a network message, by an Intel host; three of them with Simple
  const double post = g.nodes > 1 ? (p == Protocol::simple ? 3 * kHostPost : kHostPost) : 0;
  return base + (steps - between) * std::max(hop, post) + between * network;
}

/// Microseconds by NCCL's cost model.
double reckon(CollectiveKind kind, double bytes, Algorithm a, Protocol p, const Group& g) {
  double bandwidth = bus_bandwidth(a, p, g);
  bandwidth *= a == Algorithm::ring ? g.ranks / ring_steps(kind, g.ranks) : 0.5;
  double latency = latency_us(kind, a, p, g);
  if (a == Algorithm::tree && bytes >= 64) {
    const auto power = static_cast<std::size_t>(std::log2(bytes / 64));
    if (power < kTreeCorrection[0].size()) bandwidth *= kTreeCorrection[index(p)][power];
  }
  const double channels = rings_of(g).channels;
  const bool plateau = a == Algorithm::ring && p == Protocol::simple && g.nodes > 1 &&
                       kind == CollectiveKind::all_reduce && bytes / (channels * g.ranks) >= 64;
  if (plateau) latency *= g.architecture == Architecture::volta ? 1.9 : 1.4;
  return latency + bytes / (1000 * bandwidth);
}

/// GB/s of the rings inside a node.
double inner_bus(const Group& g) {
  Group node = g;
  node.ranks = g.ranks_per_node();
  node.nodes = 1;
  return rings_of(node).bus.in(units::GB_per_s);
}

/// NVLS: one store or load for all GPUs of the node. Its bandwidth counts both halves of an all-reduce. Inside one node 16
/// channels; between nodes one for each GPU, by whose port they leave it.
double reckon_nvls(CollectiveKind kind, double bytes, Algorithm a, const Group& g) {
  const bool reduces = kind == CollectiveKind::all_reduce, tree = a == Algorithm::nvls_tree;
  const double each = g.ranks_per_node(), channels = g.nodes > 1 ? each : 16;
  double channel = inner_bus(g) / channels * kNvlsEfficiency[index(g.architecture)] * (channels - 1) / channels;
  channel *= reduces ? 2 : (each - 1) / each;
  if (g.nodes > 1) channel = std::min(channel, g.network.in(units::GB_per_s) * (tree && g.nodes <= 2 ? 2 : 1));
  if (tree) channel = std::min(channel, kNvlsTreePerChannel[index(g.architecture)][nodes_row(g.nodes)]);
  const double bandwidth = channels * channel * (reduces ? g.ranks / ring_steps(kind, g.ranks) : 1);
  const double network = reckoned_network_hop(g, a, Protocol::simple).in(units::us);
  double latency = kNvlinkHop[index(a)][index(Protocol::simple)];
  if (g.nodes > 1) latency += tree ? 2 * std::floor(std::log2(g.nodes)) * network : network;
  return latency + bytes / (1000 * bandwidth);
}

/// Simple alone. All GPUs of a node send their shares side by side, each by its own port.
double reckon_collnet(CollectiveKind kind, double bytes, Algorithm a, const Group& g) {
  const double others = g.ranks_per_node() - 1, port = g.network.in(units::GB_per_s);
  const double hop = reckoned_hop(a, Protocol::simple, g.path).in(units::us);
  const double network = reckoned_network_hop(g, a, Protocol::simple).in(units::us);
  const bool direct = a == Algorithm::collnet_direct;
  double bandwidth = g.ranks_per_node() * port;
  if (kind != CollectiveKind::all_reduce) {
    bandwidth = g.ranks_per_node() * std::min(inner_bus(g) / g.ranks_per_node(), 0.9 * port);
  } else {
    const bool newer = g.architecture == Architecture::hopper || g.architecture == Architecture::blackwell;
    bandwidth *= direct && newer ? 0.85 / 2 : 0.5;
  }
  const double inside =
      direct ? 2 * (std::min(1.0, others) * hop + others * kCollnetArityMicroseconds) : 2 * others * hop;
  return inside + network + bytes / (1000 * bandwidth);
}

/// Simple alone. Its bandwidth is of the whole buffer, whatever the ranks.
double reckon_pat(double bytes, const Group& g) {
  return kBase[index(Algorithm::pat)][index(Protocol::simple)] + reckoned_pat_steps(g.ranks).in(units::us) +
         bytes / (1000 * kPatShare * rings_of(g).bus.in(units::GB_per_s));
}

/// Published times of H100 and H200 nodes with multicast follow the ring on two and four GPUs at every size, and leave it
/// on eight from 4 MiB (aiconfigurator's nccl tables, 2.26 to 2.29): NCCL's source gives no such rule, the topology that
/// it searches may.
constexpr double kLeastNvlsRanks = 8;

bool is_gather(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
}

/// CTAs that NVLS has on Hopper (src/transport/nvls.cc); taken for CollNet too.
constexpr double kSwitchChannels = 16;

bool by_switches(Algorithm a) {
  return a == Algorithm::nvls || a == Algorithm::nvls_tree || a == Algorithm::collnet_direct ||
         a == Algorithm::collnet_chain;
}

void cut_to_size(double bytes, double ranks, Choice& c) {
  const bool flags_ring = c.algorithm == Algorithm::ring && c.protocol == Protocol::ll;
  const double threshold = kThreadThreshold[index(c.protocol)] * (flags_ring ? ranks : 1);
  c.threads = kMostThreads[index(c.protocol)];
  c.channels = std::clamp(std::floor(bytes / (c.threads * threshold)), 1.0, c.channels);
  while (bytes < c.channels * c.threads * threshold && std::fmod(c.threads, 128) == 0) c.threads /= 2;
}

}  // namespace

/// A ring takes 20.6 of a Hopper NVLink's 25 GB/s, 20 of Ampere's and 40.1 of Blackwell's 50 (src/graph/topo.h), and
/// whole steps of 15 or 30 GB/s of it: four fifths of the wire. PCIe: 12 of 15.75 GB/s a generation-3 port, two channels.
Rings rings_of(const Group& group) {
  constexpr double kNvlinkShare = 0.8, kPcieShare = 12.0 / 15.75, kNvlinkChannels = 24, kPcieChannels = 2;
  Rings rings;
  rings.channels = group.path == Path::nvlink ? kNvlinkChannels : kPcieChannels;
  rings.bus = (group.path == Path::nvlink ? kNvlinkShare : kPcieShare) * group.wire;
  // every GPU of a node has its part of the network, and rings cross over all of them
  if (group.nodes > 1) rings.bus = std::min(rings.bus, group.ranks_per_node() * group.network);
  return rings;
}

double ring_steps(CollectiveKind kind, double ranks) {
  if (kind == CollectiveKind::broadcast) return ranks;
  return (kind == CollectiveKind::all_reduce ? 2 : 1) * (ranks - 1);
}

double ring_network_steps(CollectiveKind kind, double nodes) {
  return nodes <= 1 ? 0 : (kind == CollectiveKind::all_reduce ? 2 : 1) * (nodes - 1);
}

bool pat_allowed(CollectiveKind kind, const Group& group) {
  return is_gather(kind) && group.nodes > 1 && group.nodes == group.ranks;
}

bool switches_allowed(Algorithm a, CollectiveKind kind, const Group& g) {
  constexpr double kMostMulticastRanks = 32,
                   kMostCollnetRanks = 8;  // of a node: NCCL_MAX_NVLS_ARITY, _DIRECT_ARITY + 1
  const bool reduces = kind == CollectiveKind::all_reduce;
  const bool gathers = is_gather(kind) && g.ranks_per_node() <= kMostMulticastRanks;
  const bool collnet = g.network_adds && g.nodes > 1 && g.ranks_per_node() <= kMostCollnetRanks;
  switch (a) {
    case Algorithm::nvls: return (reduces || gathers) && g.multicast && (g.nodes <= 1 || g.network_adds);
    case Algorithm::nvls_tree: return reduces && g.multicast && g.nodes > 1 && g.ranks_per_node() > 1;
    case Algorithm::collnet_direct: return (reduces || gathers) && collnet && g.path == Path::nvlink;
    case Algorithm::collnet_chain: return reduces && collnet;
    default: return false;
  }
}

Seconds reckoned_pat_steps(double ranks) {
  constexpr double kHopShare = 1 / 3.5, kEachRank = 2.8;
  const double hop = kNetworkHop[index(Algorithm::pat)][index(Protocol::simple)];
  return (std::floor(std::log2(ranks)) * kHopShare * hop + kEachRank * ranks) * units::us;
}

Seconds reckoned_hop(Algorithm algorithm, Protocol protocol, Path path) {
  const auto& table = path == Path::nvlink ? kNvlinkHop : kPcieHop;
  return table[index(algorithm)][index(protocol)] * units::us;
}

Seconds reckoned_network_hop(Algorithm algorithm, Protocol protocol) {
  return kNetworkHop[index(algorithm)][index(protocol)] * units::us;
}

Seconds reckoned_network_hop(const Group& g, Algorithm a, Protocol p) {
  return reckoned_network_hop(g.ranks_per_node() <= 1 ? Algorithm::tree : a, p);
}

double ways_of_hop(Protocol protocol, Path path) {
  return reckoned_hop(Algorithm::ring, protocol, path) / reckoned_hop(Algorithm::ring, Protocol::ll, path);
}

double ways_of_network_hop(Algorithm algorithm, Protocol protocol) {
  return reckoned_network_hop(algorithm, protocol) / reckoned_network_hop(Algorithm::ring, Protocol::ll);
}

Choice choose(CollectiveKind kind, double bytes, const Group& group, std::optional<Algorithm> only,
              std::optional<Protocol> told) {
  Choice best;
  double least = 0;
  const auto offer = [&](Algorithm a, Protocol p, double us) {
    if ((least > 0 && us >= least) || (only && a != *only) || (told && p != *told)) return;
    least = us;
    best.algorithm = a;
    best.protocol = p;
  };
  const bool reduces = kind == CollectiveKind::all_reduce;
  for (const Protocol p : {Protocol::ll, Protocol::ll128, Protocol::simple}) {
    if (p == Protocol::ll128 && group.path != Path::nvlink) continue;  // stores of 128 bytes stay whole on NVLink alone
    if (reduces) offer(Algorithm::tree, p, reckon(kind, bytes, Algorithm::tree, p, group));
    offer(Algorithm::ring, p, reckon(kind, bytes, Algorithm::ring, p, group));
  }
  for (const Algorithm a : {Algorithm::nvls, Algorithm::nvls_tree}) {
    const bool enough = group.ranks_per_node() >= kLeastNvlsRanks || only == a;
    if (enough && switches_allowed(a, kind, group)) offer(a, Protocol::simple, reckon_nvls(kind, bytes, a, group));
  }
  for (const Algorithm a : {Algorithm::collnet_direct, Algorithm::collnet_chain}) {
    if (switches_allowed(a, kind, group)) offer(a, Protocol::simple, reckon_collnet(kind, bytes, a, group));
  }
  if (pat_allowed(kind, group)) offer(Algorithm::pat, Protocol::simple, reckon_pat(bytes, group));
  if (least <= 0) {
    throw BadInput(
        std::string(name(kind)) +
        ": NCCL has no such algorithm for it between these GPUs (tree, nvls-tree and collnet-chain are of "
        "all_reduce, pat of all_gather and reduce_scatter among ranks of a node each; nvls needs switches of "
        "a node that add, nvls-tree several such nodes, collnet a network that adds; all but ring and tree have "
        "simple alone, ll128 needs NVLink, and switches add no 8-bit types)");
  }
  best.channels = rings_of(group).channels;
  if (by_switches(best.algorithm)) best.channels = kSwitchChannels;
  else cut_to_size(bytes, group.ranks, best);
  best.reckoned = least * units::us;
  return best;
}

double peer_channels(double message_bytes, double ranks) {
  constexpr double kMostPart = 32 * kSimpleStep;
  const double share = std::max(1.0, std::floor(kPeerChannels / ranks));
  double channels = std::clamp(std::ceil(message_bytes / kLeastPart), 1.0, share);
  while (message_bytes / channels > kMostPart && channels <= kPeerChannels / 2) channels *= 2;
  return channels;
}

}  // namespace plumbline::nccl
