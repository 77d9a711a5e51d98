// Which algorithm, protocol and how many channels NCCL takes for a collective: its own cost model, with its own
// constants. Source: NVIDIA/nccl 2.28, src/graph/tuning.cc (ncclTopoTuneModel, ncclTopoGetAlgoTime) and src/enqueue.cc
// (topoGetAlgoInfo, addP2pToPlan). The times that it reckons with choose; they are no predictions (docs/sources.md:
// collectives). Networks that add (CollNet) are taken where the cluster's file says that its network does and NCCL is told
// to use it (in_network_reduction of that tier; NCCL_COLLNET_ENABLE and a plugin). Not modelled: user plugins.
#pragma once

#include <cstdint>
#include <optional>

#include "arch/units.hpp"
#include "ops/shape/collective.hpp"

namespace plumbline::nccl {

enum class Algorithm : std::uint8_t { ring, tree, nvls, pat, nvls_tree, collnet_direct, collnet_chain };
enum class Protocol : std::uint8_t { ll, ll128, simple };
/// Rows of NCCL's tables.
enum class Architecture : std::uint8_t { volta, ampere, hopper, blackwell };
enum class Path : std::uint8_t { nvlink, pcie };

/// The ranks of a collective and what lies between them.
struct Group {
  double ranks = 2, nodes = 1;
  Architecture architecture = Architecture::hopper;
  Path path = Path::nvlink;                ///< inside a node
  Bandwidth wire;                          ///< inside a node: a GPU, one direction
  Bandwidth network;                       ///< between nodes: a GPU, one direction; read where nodes > 1
  Seconds longer_way, longer_network_way;  ///< than NCCL's tables are for, of one message with its flags
  bool multicast = false;                  ///< switches inside the node copy and add, and NCCL may use it
  bool network_adds = false;               ///< so do those between nodes

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

/// Messages that a rank passes on one after the other in a ring, as NCCL counts them: 2 (n - 1) for an all-reduce, n for a
/// broadcast, else n - 1.
double ring_steps(CollectiveKind kind, double ranks);
/// ... of which go between nodes.
double ring_network_steps(CollectiveKind kind, double nodes);

/// Parallel aggregated trees (NCCL 2.23 on; all-gather and reduce-scatter of ranks that each have a node to themselves,
/// from compute capability 6.0 on): a tree for each rank's data, in as many steps as the nodes double.
bool pat_allowed(CollectiveKind kind, const Group& group);
/// What its steps take as NCCL reckons them: a share of a hop each doubling, and "still a linear part".
Seconds reckoned_pat_steps(double ranks);
/// Share of the rings' bandwidth that NCCL reckons it reaches.
inline constexpr double kPatShare = 0.75;

/// Algorithms of switches that add. NVLS: one store or load for all GPUs of the node; between nodes its sums meet in trees
/// (NVLS tree), or in the network's switches. CollNet: a node's GPUs add up shares of the data (direct), or pass them along
/// a chain, and the network adds the nodes'. Every GPU of a node is taken to have a port of its own into the network.
bool switches_allowed(Algorithm algorithm, CollectiveKind kind, const Group& group);

/// What one hop takes by NCCL's tables, inside a node and between nodes.
Seconds reckoned_hop(Algorithm algorithm, Protocol protocol, Path path);
Seconds reckoned_network_hop(Algorithm algorithm, Protocol protocol);
/// ... of this group: where each rank has a node to itself nothing hides its latency, and NCCL takes the tree's.
Seconds reckoned_network_hop(const Group& group, Algorithm algorithm, Protocol protocol);
/// Serialization that CollNet adds for each other GPU of a node, up and down.
inline constexpr double kCollnetArityMicroseconds = 0.4;

/// Ways across a link of any kind that a hop of this protocol has, as its hops are to LL's, a store and nothing else, in
/// NCCL's own tables: Simple's waits for a fence before its flag.
double ways_of_hop(Protocol protocol, Path path);
double ways_of_network_hop(Algorithm algorithm, Protocol protocol);

/// Any collective but all_to_all, of `bytes`, the larger buffer of one rank; by `only` and with `told` where a user says so
/// (NCCL_ALGO, NCCL_PROTO). Throws BadInput where NCCL has no such algorithm for it, or not with that protocol; LL128 too
/// where no NVLink joins the GPUs, which NCCL obeys though its lines may come torn.
Choice choose(CollectiveKind kind, double bytes, const Group& group, std::optional<Algorithm> only = {},
              std::optional<Protocol> told = {});

/// What a thread of LL passes on at a time: 8 bytes, and 4 of flag beside each half; and the lines of each thread that a
/// step's buffer holds (NCCL_LL_LINES_PER_THREAD), of 512 threads whatever their number.
inline constexpr double kLine = 8, kLinesAThread = 8;
inline constexpr double kLinesChunk = kLine * kLinesAThread * 512;

/// Channels of one message between two ranks that are part of an exchange among `ranks`: each at least 64 KiB; of 32 that
/// all messages of a rank share, and twice that, again and again, while their parts are longer than 16 MiB.
double peer_channels(double message_bytes, double ranks);
/// All channels that a rank's messages run on.
inline constexpr double kPeerChannels = 32;
/// Messages up to here carry flags beside the data (NCCL_P2P_LL_THRESHOLD).
inline constexpr double kFlaggedMessage = 16384;
/// Part of a message that a channel has under way, and that the next one waits for: 8 of them are a buffer of 4 MiB.
inline constexpr double kSimpleStep = 524288;
/// A channel has no less of a message, unless that is all.
inline constexpr double kLeastPart = kSimpleStep / 8;

}  // namespace plumbline::nccl
