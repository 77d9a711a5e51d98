// NCCL's collectives between GPUs. NCCL's own cost model says which algorithm and protocol runs (tuner.hpp); what those
// take is a handful of scalars a protocol, fitted to published times (families of calibrations).
//
// A ring passes `steps` messages of N / n bytes on, one after the other, and copies some in and out at its ends: with x
// the time that N / n bytes take at the bandwidth that the protocol reaches on the wire,
//   time = fixed + steps * hop  combined with  steps * x  + ends * x + (first part of a message at one channel's rate).
// Where flags lie beside the data (LL, LL128) a thread passes on a line as soon as it has come, so that the latency of a
// hop and its bytes overlap in part (a p-norm, as of a kernel's resources). Simple waits for whole parts: they add up.
#include <algorithm>
#include <array>
#include <cmath>

#include "arch/error.hpp"
#include "arch/fabric/cluster.hpp"
#include "model/stacks/common/collective_choice.hpp"
#include "model/stacks/common/links.hpp"
#include "model/stacks/nccl/tuner.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {
namespace {

using nccl::Algorithm;
using nccl::Choice;
using nccl::Group;
using nccl::Protocol;

enum Family : std::size_t { kRingLl, kRingLl128, kRingSimple, kNvls, kPeerLl, kPeerSimple, kFamilies };

constexpr auto kRings = std::to_array<BandClass>({{Variant::usual, "collective_ring"}});
constexpr auto kPeers = std::to_array<BandClass>({{Variant::usual, "collective_peer"}});
constexpr std::array<FamilyDeclaration, kFamilies> kDeclared{
    {{.name = "nccl_ring_ll", .required = false, .kind = "collective", .classes = kRings},
     {.name = "nccl_ring_ll128", .required = false, .kind = "collective", .classes = kRings},
     {.name = "nccl_ring_simple", .required = false, .kind = "collective", .classes = kRings},
     {.name = "nccl_nvls", .required = false, .kind = "collective", .classes = kRings},
     {.name = "nccl_peer_ll", .required = false, .kind = "collective", .classes = kPeers},
     {.name = "nccl_peer_simple", .required = false, .kind = "collective", .classes = kPeers}}};

constexpr std::array<std::string_view, 8> kOps{"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                               "broadcast",  "send_recv",  "moe_dispatch",   "moe_combine"};

constexpr double kSimpleChunk = 4 * nccl::kSimpleStep;  // of a channel, at most; two slices a chunk

nccl::Architecture architecture_of(const Rates& m) {
  switch (m.path.kind) {
    case TensorPath::Kind::tcgen05: return nccl::Architecture::blackwell;
    case TensorPath::Kind::wgmma: return nccl::Architecture::hopper;
    case TensorPath::Kind::mma_sync: break;
  }
  if (m.path.multicast)
    return nccl::Architecture::blackwell;  // of workstations: NCCL asks for compute capability 10 on
  return m.path.async_copy ? nccl::Architecture::ampere : nccl::Architecture::volta;
}

/// Of `ranks` ranks, each `apart` from the next: between the members inside a node lie other groups' ranks.
Group group_of(const Question& q, double ranks, double apart) {
  if (q.rates.fabric == nullptr) throw BadInput(q.gpu + ": nothing says what joins several of it");
  const Cluster& cluster = *q.rates.fabric;
  const FabricTier& inner = cluster.inner();
  Group g;
  g.ranks = ranks;
  g.architecture = architecture_of(q.rates);
  g.path = inner.kind == LinkKind::pcie ? nccl::Path::pcie : nccl::Path::nvlink;
  g.wire = inner_wire(q.rates);
  g.multicast = inner.multicast && inner.in_network_reduction;
  g.longer_way = longer_way(inner);
  const auto per_node = static_cast<double>(cluster.gpus_per_node());
  const double span = (ranks - 1) * apart + 1;  // of neighbouring ranks, from the first member to the last
  if (span <= per_node) return g;
  g.nodes = std::min(ranks, std::ceil(ranks * apart / per_node));
  const std::size_t tier = cluster.tier_of(static_cast<std::int64_t>(span));
  if (tier == 0) {
    throw BadInput("cluster " + cluster.name + ": nothing joins more than its " +
                   std::to_string(cluster.gpus_per_node()) + " GPUs; found " +
                   std::to_string(static_cast<std::int64_t>(span)));
  }
  g.network = cluster.tiers[tier].bandwidth / cluster.tiers[tier].oversubscription;
  g.longer_network_way = longer_way(cluster.tiers[tier]);
  g.network_adds = cluster.tiers[tier].in_network_reduction;
  return g;
}

const FamilyScalars& family_on_file(const Question& q, Family which) {
  const FamilyScalars& family = q.families[which];
  if (!family.on_file) {
    throw NotModelled("no times of NCCL (" + std::string(kDeclared[which].name) + ") are on file for " + q.gpu);
  }
  return family;
}

/// What a protocol reaches of a GPU's links; between nodes all GPUs of a node send side by side.
Bandwidth rate_of(const Group& g, const FamilyScalars& f) {
  const Bandwidth inside = f.link_share * g.wire;
  return g.nodes > 1 ? std::min(inside, g.ranks_per_node() * g.network) : inside;
}

/// One after the other of what a rank hands on: a hop inside the node as it was measured, and one of a network in NCCL's own
/// words (a message by its card); both by as much longer as the cluster's links are.
struct Hops {
  Seconds inside, network;
};
Hops hops_of(const Group& g, Algorithm a, Protocol p, Seconds measured) {
  Hops h;
  h.inside = std::max(Seconds{}, measured + nccl::ways_of_hop(p, g.path) * g.longer_way);
  const Seconds message = nccl::reckoned_network_hop(g, a, p) + nccl::ways_of_network_hop(a, p) * g.longer_network_way;
  h.network = std::max(h.inside, message);
  return h;
}

/// What the wire carries for a rank, and the time of it that overlaps with nothing.
struct Exchange {
  Bytes link;
  Bandwidth rate;
  Seconds waits;  ///< hops, and what a channel's first part takes
  Bytes
      staged;  ///< of `link`: by way of NCCL's own buffers, which a receiver's channel reads (src/device/prims_simple.h)
};

Exchange ring(CollectiveKind kind, double bytes, const Group& g, const Choice& c, const FamilyScalars& f) {
  const double steps = nccl::ring_steps(kind, g.ranks), between = nccl::ring_network_steps(kind, g.nodes);
  const Hops hop = hops_of(g, Algorithm::ring, c.protocol, f.step + c.threads / 512 * f.per_cta);
  const Bytes part = bytes / g.ranks * units::B;
  Exchange e;
  e.rate = rate_of(g, f);
  e.link = (steps + f.exposed) * part;
  e.staged = steps * part;
  const auto beyond = [&](Seconds way) { return pnorm_of_two(way, part / e.rate, f.overlap) - part / e.rate; };
  e.waits = (steps - between) * beyond(hop.inside) + between * beyond(hop.network);
  if (c.protocol == Protocol::simple) {
    const double chunk = std::min(kSimpleChunk, bytes / (g.ranks * c.channels));
    e.waits += chunk / 2 * units::B / f.channel;
  }
  return e;
}

/// All bytes pass through all ranks, in parts that follow one another: hops and the first part of a channel once. Nobody
/// timed it on any card: rings of an all-gather lend it their rates.
Exchange chain(double bytes, const Group& g, const Choice& c, const FamilyScalars& f) {
  const double between = nccl::ring_network_steps(CollectiveKind::broadcast, g.nodes), steps = g.ranks - 1 - between;
  const Hops hop = hops_of(g, Algorithm::ring, c.protocol, f.step + c.threads / 512 * f.per_cta);
  Exchange e;
  e.rate = rate_of(g, f);
  e.link = e.staged = bytes * units::B;
  e.waits = steps * hop.inside + between * hop.network;
  if (c.protocol == Protocol::simple) {
    e.waits += (g.ranks - 1) * std::min(kSimpleChunk / 2, bytes / c.channels) * units::B / f.channel;
  }
  return e;
}

/// Up one tree and down again, all channels together; hops as NCCL reckons them beside a ring's measured one.
Exchange tree(double bytes, const Group& g, const Choice& c, const FamilyScalars& f) {
  const double within = 2 * (g.ranks_per_node() - 1), between = 2 * std::floor(std::log2(g.nodes));
  const double longer =
      nccl::reckoned_hop(Algorithm::tree, c.protocol, g.path) / nccl::reckoned_hop(Algorithm::ring, c.protocol, g.path);
  Exchange e;
  e.rate = rate_of(g, f);
  e.link = e.staged = 2 * bytes * units::B;
  const Hops hop = hops_of(g, Algorithm::tree, c.protocol, f.step + f.per_cta);
  e.waits = within * longer * hop.inside + between * hop.network;
  return e;
}

/// Each rank's data go down a tree of their own, all trees side by side: as many bytes as a ring sends, in fewer steps.
Exchange pat(double bytes, const Group& g, const FamilyScalars& f) {
  Exchange e;
  e.rate = nccl::kPatShare * rate_of(g, f);
  e.link = (g.ranks - 1) / g.ranks * bytes * units::B;
  e.waits =
      std::max(Seconds{}, nccl::reckoned_pat_steps(g.ranks) +
                              std::floor(std::log2(g.ranks)) *
                                  nccl::ways_of_network_hop(Algorithm::ring, Protocol::simple) * g.longer_network_way);
  return e;
}

/// Of what a rank moves inside its node and what its port sends into the network meanwhile, the longer decides.
void move(Exchange& e, double inside, Bandwidth wire, double port, const Group& g) {
  const Seconds within = inside * units::B / wire;
  const bool by_port = g.nodes > 1 && port * units::B / g.network > within;
  e.link = (by_port ? port : inside) * units::B;
  e.rate = by_port ? g.network : wire;
}

/// Switches add what they gather from all GPUs and store it to all: each sends its data once, in chunks of 128 KiB a
/// channel and rank, of which the first must have come back before the pipe is full. All-gathers and reduce-scatters move
/// what the others have. Between nodes each GPU's port takes its share: once where the network adds; in a tree of nodes up
/// and down, which of two nodes are the same way. What that takes is NCCL's own figure.
Exchange nvls(CollectiveKind kind, double bytes, const Group& g, const Choice& c, const FamilyScalars& f) {
  constexpr double kChunk = 131072;
  const bool tree = c.algorithm == Algorithm::nvls_tree;
  const double all = kind == CollectiveKind::all_reduce ? bytes : (g.ranks - 1) / g.ranks * bytes;
  Exchange e;
  move(e, all, f.link_share * g.wire, all / g.ranks_per_node() * (tree && g.nodes > 2 ? 2 : 1), g);
  e.waits = 2.0 * g.longer_way;  // to the switch and on
  if (g.nodes > 1) {
    const double messages = tree ? 2 * std::floor(std::log2(g.nodes)) : 1;
    e.waits += messages * hops_of(g, c.algorithm, Protocol::simple, {}).network;
  }
  if (f.channel > Bandwidth{}) e.waits += std::min(kChunk, bytes / (c.channels * g.ranks)) * units::B / f.channel;
  return e;
}

/// The network's switches add. Direct: the GPUs of a node exchange shares, each sends the sum of one by its port, gets the
/// whole of it back and hands it to the others. Chain: sums go up a chain of the node's GPUs and down again.
Exchange collnet(CollectiveKind kind, double bytes, const Group& g, const Choice& c, const FamilyScalars& f) {
  const bool direct = c.algorithm == Algorithm::collnet_direct, reduces = kind == CollectiveKind::all_reduce;
  const double each = g.ranks_per_node(), others = each - 1, ways = reduces ? 2 : 1;
  const Hops hop = hops_of(g, c.algorithm, Protocol::simple, f.step + f.per_cta);
  const double longer = nccl::reckoned_hop(c.algorithm, Protocol::simple, g.path) /
                        nccl::reckoned_hop(Algorithm::ring, Protocol::simple, g.path);
  Exchange e;
  move(e, direct ? ways * others / each * bytes : std::min(1.0, others) * ways * bytes, f.link_share * g.wire,
       bytes / each, g);
  e.staged = e.link;
  e.waits = ways * (direct ? std::min(1.0, others) : others) * longer * hop.inside + hop.network;
  if (direct) e.waits += ways * others * nccl::kCollnetArityMicroseconds * units::us;
  return e;
}

/// What the channels of all messages of a rank add to the link's time; with `staged` buffers of the library's own, or as
/// the graph that captured the call registered them.
///
/// Channels share the link, and each is a chain of loads and stores of its own: the two times add up. (On two H200 sixteen
/// channels move 303 GB/s, 32 of them 331; own recordings, data/measurements/h200/links.) What is in the smallest part that
/// NCCL cuts is on its way before the first of it is seen to have come: one channel's 16 and 64 KiB take 7.4 and 7.6 us.
/// Channels begin one after the other, in part beside the data of those before them: 64 KiB on each of 1, 4, 16 and (four
/// GPUs) 24 take 7.6, 9.3, 14.3 and 20.1 us on the H200; on the A100, queued, 14.4, 17.3, 28.8 and 36. In a queued call
/// the receiver's word that a buffer is free comes meanwhile, which on the H100 is the longer: 13.9 and 14.4 us for 1 and 4
/// channels, 17.2 for 24. The copy to the rank itself runs on channels beside them.
Seconds channel_times(double message, double others, const Exchange& e, const FamilyScalars& f, bool staged) {
  const double each = nccl::peer_channels(message, others + 1);
  const double channels = std::min(nccl::kPeerChannels, others * each);
  const double first = std::min(message / each, nccl::kSimpleStep);
  const Seconds on_wire = e.link / e.rate;
  const Seconds chains =
      (f.exposed * std::max(0.0, first - nccl::kLeastPart) * units::B + e.link / channels) / f.channel;
  const Seconds starts = (channels - 1) * f.per_cta, begun = staged ? std::max(f.step, starts) : starts;
  return pnorm_of_two(begun, on_wire + chains, f.overlap) - on_wire;
}

/// A message to each other rank, side by side. Calls that a graph has captured store right into the receiver's buffer,
/// which NCCL registers with the graph (2.24 on); others go by way of its own, and wait for the receiver to say so.
Exchange peers(double message, double others, const Group& g, const FamilyScalars& f, bool flags, bool staged) {
  Exchange e;
  e.rate = rate_of(g, f);
  e.link = others * message * units::B;
  if (g.nodes > 1) {  // what leaves the node goes by its own port
    const double away = g.ranks - g.ranks_per_node();
    e.rate = std::min(e.rate, others / away * g.network);
  }
  const Protocol protocol = flags ? Protocol::ll : Protocol::simple;
  const Hops hop = hops_of(g, Algorithm::ring, protocol, nccl::reckoned_hop(Algorithm::ring, protocol, g.path));
  // of the hop inside a node the family has what was measured
  e.waits = g.nodes > 1 ? hop.network : hop.inside - nccl::reckoned_hop(Algorithm::ring, protocol, g.path);
  if (flags) {
    e.waits += message * units::B / f.channel;
    return e;
  }
  e.waits += channel_times(message, others, e, f, staged);
  if (staged) e.staged = e.link;
  return e;
}

/// Bytes as all ranks handle them: where they do not divide into as many parts, each part is as long as the longest, a
/// whole number of elements, as callers pad it (all ranks of a call pass the same count).
double evened(const Collective& s) {
  const double bytes = static_cast<double>(s.bytes), ranks = static_cast<double>(s.gpus);
  if (s.kind == CollectiveKind::all_reduce || s.kind == CollectiveKind::broadcast) return bytes;
  const double element = std::max(1.0, bits(s.dtype) / 8.0);
  return std::max(bytes, ranks * std::ceil(bytes / (ranks * element)) * element);
}

class Nccl final : public Provider {
 public:
  std::string_view name() const override { return "nccl"; }
  std::span<const FamilyDeclaration> families() const override { return kDeclared; }
  std::span<const std::string_view> ops() const override { return kOps; }

  bool plan(const Question& q, Answer& out) const override {
    if (const auto* transfer = std::get_if<Transfer>(&q.op)) {
      if (transfer->kind != TransferKind::send_recv) return false;
      return exchange(static_cast<double>(transfer->bytes), 1, group_of(q, 2, static_cast<double>(transfer->stride)), q,
                      out);
    }
    if (const auto* rows = std::get_if<ExpertExchange>(&q.op)) return exchange_rows(*rows, q, out);
    const auto* s = std::get_if<Collective>(&q.op);
    if (s == nullptr) return false;
    const double ranks = static_cast<double>(s->gpus), bytes = evened(*s);
    if (ranks < 2) return false;  // a copy at most
    Group g = group_of(q, ranks, static_cast<double>(s->stride));
    g.multicast = g.multicast && s->multicast;
    // nobody timed NCCL by PCIe or between nodes for these families
    out.unmeasured = g.path == nccl::Path::pcie || g.nodes > 1;
    if (s->kind == CollectiveKind::all_to_all) {  // as long as the busiest rank takes
      return exchange((1 + s->skew / 100) * bytes / ranks, ranks - 1, g, q, out);
    }
    const Choice c = nccl::choose(s->kind, bytes, g, forced(*s, q));
    if (c.algorithm == Algorithm::nvls || c.algorithm == Algorithm::nvls_tree) {
      const FamilyScalars& f = family_on_file(q, kNvls);
      out.unmeasured = out.unmeasured || s->kind != CollectiveKind::all_reduce;
      return launch(c.algorithm == Algorithm::nvls ? "nccl nvls" : "nccl nvls tree", nvls(s->kind, bytes, g, c, f),
                    c.channels, f, ranks, q, out);
    }
    if (c.algorithm == Algorithm::collnet_direct || c.algorithm == Algorithm::collnet_chain) {
      const FamilyScalars& f = family_on_file(q, kRingSimple);
      return launch(c.algorithm == Algorithm::collnet_direct ? "nccl collnet direct" : "nccl collnet chain",
                    collnet(s->kind, bytes, g, c, f), c.channels, f, ranks, q, out);
    }
    constexpr std::array<std::array<const char*, 3>, 2> kKernels{
        {{"nccl ring ll", "nccl ring ll128", "nccl ring simple"},
         {"nccl tree ll", "nccl tree ll128", "nccl tree simple"}}};
    const auto protocol = static_cast<std::size_t>(c.protocol);
    const FamilyScalars& f = family_on_file(q, static_cast<Family>(kRingLl + protocol));
    if (s->kind == CollectiveKind::broadcast) {
      out.unmeasured = true;
      return launch(kKernels[0][protocol], chain(bytes, g, c, f), c.channels, f, ranks, q, out);
    }
    if (c.algorithm == Algorithm::pat) return launch("nccl pat simple", pat(bytes, g, f), c.channels, f, ranks, q, out);
    const bool up_and_down = c.algorithm == Algorithm::tree;
    return launch(kKernels[up_and_down ? 1 : 0][protocol],
                  up_and_down ? tree(bytes, g, c, f) : ring(s->kind, bytes, g, c, f), c.channels, f, ranks, q, out);
  }

 private:
  /// In a step those of the collectives that an algorithm is of go by it, as by NCCL_ALGO="allreduce:tree".
  static std::optional<Algorithm> forced(const Collective& s, const Question& q) {
    if (!q.priced_alone && !is_algorithm_of(q.collective, s.kind)) return {};
    switch (q.collective) {
      case CollectiveChoice::automatic: return {};
      case CollectiveChoice::ring: return Algorithm::ring;
      case CollectiveChoice::tree: return Algorithm::tree;
      case CollectiveChoice::nvls: return Algorithm::nvls;
      case CollectiveChoice::nvls_tree: return Algorithm::nvls_tree;
      case CollectiveChoice::collnet_direct: return Algorithm::collnet_direct;
      case CollectiveChoice::collnet_chain: return Algorithm::collnet_chain;
      case CollectiveChoice::pat: return Algorithm::pat;
      case CollectiveChoice::one_shot:
      case CollectiveChoice::two_shot: break;
    }
    throw BadInput(
        "one-shot and two-shot collectives are no algorithms of NCCL, and the stack has no other kernel for this one");
  }

  /// Where the stack has no kernels that know a token's experts: an all-to-all of all routed rows.
  static bool exchange_rows(const ExpertExchange& s, const Question& q, Answer& out) {
    if (s.gpus < 2) return false;
    const double ranks = static_cast<double>(s.gpus),
                 rows = static_cast<double>(s.tokens) * static_cast<double>(s.topk);
    const Group g = group_of(q, ranks, 1);
    out.unmeasured = g.path == nccl::Path::pcie || g.nodes > 1;
    return exchange((1 + s.skew / 100) * rows / ranks * row_bytes(s).in(units::B), ranks - 1, g, q, out);
  }

  static bool exchange(double message, double others, const Group& g, const Question& q, Answer& out) {
    const bool flags = message <= nccl::kFlaggedMessage;
    const FamilyScalars& f = family_on_file(q, flags ? kPeerLl : kPeerSimple);
    const double channels = others * nccl::peer_channels(message, others + 1);
    return launch(flags ? "nccl send/recv ll" : "nccl send/recv simple", peers(message, others, g, f, flags, q.queued),
                  std::min(channels, nccl::kPeerChannels), f, others + 1, q, out);
  }

  static bool launch(const char* kernel, const Exchange& e, double channels, const FamilyScalars& f, double ranks,
                     const Question& q, Answer& out) {
    out.sign(f);
    Demand& d = out.launch(kernel, f) = Demand{};
    d.plan.ctas = static_cast<std::int64_t>(channels);
    d.link = e.link;
    d.link_rate = e.rate;
    d.staged = e.staged;
    // memory moves beside the links: what takes longer
    const Seconds memory = q.work.bytes() / std::min(q.rates.dram_read, q.rates.dram_write) - e.link / e.rate;
    d.serial_latency = std::max(Seconds{}, memory) + std::max(-f.fixed, e.waits) + q.collective_call.of(ranks);
    d.serial_latency_of = "of hops, of a message's first part at one channel's rate, and of the stack's call";
    // beside the link's time, not in it
    out.read_beside = q.work.read;
    out.written_beside = q.work.write;
    return true;
  }
};

}  // namespace

const Provider& nccl_provider() {
  static const Nccl provider;
  return provider;
}

}  // namespace plumbline
