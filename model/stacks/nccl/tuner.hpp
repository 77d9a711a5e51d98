// Which algorithm, protocol and how many channels NCCL takes for a collective: its own cost model, with its own
// constants. Source: NVIDIA/nccl 2.28, src/graph/tuning.cc (ncclTopoTuneModel, ncclTopoGetAlgoTime) and src/enqueue.cc
// (topoGetAlgoInfo, calcP2pChunkSize). The times that it reckons with choose; they are no predictions
// (docs/sources.md: collectives). Not modelled: CollNet (in-network reduction by InfiniBand switches needs a plugin), PAT, user plugins.
#pragma once

#include <cstdint>

#include "arch/units.hpp"
#include "ops/shape/collective.hpp"

namespace plumbline::nccl {

enum class Algorithm : std::uint8_t { ring, tree, nvls };
enum class Protocol : std::uint8_t { ll, ll128, simple };
/// Rows of NCCL's tables.
enum class Architecture : std::uint8_t { volta, ampere, hopper, blackwell };
enum class Path : std::uint8_t { nvlink, pcie };

/// The ranks of a collective and what lies between them.
struct Group {
  double ranks = 2, nodes = 1;
  Architecture architecture = Architecture::hopper;
  Path path = Path::nvlink;  ///< inside a node
  Bandwidth wire;            ///< inside a node: a GPU, one direction
  Bandwidth network;         ///< between nodes: a GPU, one direction; read where nodes > 1
  bool multicast = false;    ///< switches inside the node copy and add, and NCCL may use it

  double ranks_per_node() const { return ranks / nodes; }
};

/// Bandwidth and number of the rings that NCCL lays through a node.
struct Rings {
  double channels = 24;
  Bandwidth bus;  ///< all channels together
};
Rings rings_of(const Group& group);

struct Choice {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  double channels = 1, threads = 512;
  Seconds reckoned;  ///< by NCCL's cost model
};

/// Messages that a rank passes on one after the other in a ring: 2 (n - 1) for an all-reduce, else n - 1.
double ring_steps(CollectiveKind kind, double ranks);
/// ... of which go between nodes.
double ring_network_steps(CollectiveKind kind, double nodes);

/// What one hop takes by NCCL's tables, inside a node and between nodes.
Seconds reckoned_hop(Algorithm algorithm, Protocol protocol, Path path);
Seconds reckoned_network_hop(Algorithm algorithm, Protocol protocol);

/// all_reduce, all_gather or reduce_scatter of `bytes`, the larger buffer of one rank.
Choice choose(CollectiveKind kind, double bytes, const Group& group);

/// Channels of one message between two ranks that are part of an exchange among `ranks`: each at least 64 KiB; twice the
/// least share of 32 once their parts are longer than 512 KiB.
double peer_channels(double message_bytes, double ranks);
/// Shorter messages carry flags beside the data.
inline constexpr double kLeastPeerPart = 65536;
/// Part of a message that a channel has under way, and that the next one waits for: 8 of them are a buffer of 4 MiB.
inline constexpr double kSimpleStep = 524288;

}  // namespace plumbline::nccl
