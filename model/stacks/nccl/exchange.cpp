#include "model/stacks/nccl/exchange.hpp"

#include <algorithm>
#include <cmath>

#include "model/stacks/common/links.hpp"

namespace plumbline::nccl {
namespace {

constexpr double kSimpleChunk = 4 * kSimpleStep;  // of a channel, at most; two slices a chunk

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
  h.inside = std::max(Seconds{}, measured + ways_of_hop(p, g.path) * g.longer_way);
  const Seconds message = reckoned_network_hop(g, a, p) + ways_of_network_hop(a, p) * g.longer_network_way;
  h.network = std::max(h.inside, message);
  return h;
}

/// Of what a rank moves inside its node and what its port sends into the network meanwhile, the longer decides.
void move(Exchange& e, double inside, Bandwidth wire, double port, const Group& g) {
  const Seconds within = inside * units::B / wire;
  const bool by_port = g.nodes > 1 && port * units::B / g.network > within;
  e.link = (by_port ? port : inside) * units::B;
  e.rate = by_port ? g.network : wire;
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
  const double each = peer_channels(message, others + 1);
  const double channels = std::min(kPeerChannels, others * each);
  const double first = std::min(message / each, kSimpleStep);
  const Seconds on_wire = e.link / e.rate;
  const Seconds chains = (f.exposed * std::max(0.0, first - kLeastPart) * units::B + e.link / channels) / f.channel;
  const Seconds starts = (channels - 1) * f.per_cta, begun = staged ? std::max(f.step, starts) : starts;
  return pnorm_of_two(begun, on_wire + chains, f.overlap) - on_wire;
}

/// What channels take longer where NCCL's copies go element by element, of `bytes` in all, behind what links and hops take:
/// Simple where the ranks' parts are no whole 16 bytes (src/device/common_kernel.h, reduceCopy), LL's stores always.
Seconds by_elements(double bytes, double channels, const FamilyScalars& f) {
  return f.element > Bandwidth{} ? bytes / channels * units::B / f.element : Seconds{};
}

/// See ring(): a channel's share of a rank's part, in lines of its threads.
Exchange ring_of_lines(CollectiveKind kind, double bytes, const Group& g, const Choice& c, const FamilyScalars& f,
                       double element) {
  const double steps = ring_steps(kind, g.ranks), between = ring_network_steps(kind, g.nodes);
  const Hops hop = hops_of(g, Algorithm::ring, c.protocol, f.step + c.threads / 512 * f.per_cta);
  const double part = bytes / g.ranks, share = part / c.channels, at_once = kLine * c.threads;
  const auto whole = [](double count) { return std::max(1.0, std::ceil(count - 1e-9)); };
  const double rounds = whole(share / kLinesChunk), lines = whole(share / at_once);
  const double kept = kind == CollectiveKind::reduce_scatter ? 1 : g.ranks;  // parts that stay in a rank's own memory
  Exchange e;
  e.rate = rate_of(g, f);
  e.link = e.staged = steps * part * units::B;
  const Seconds hops = rounds * ((steps - between) * hop.inside + between * hop.network);
  Seconds chain = (c.channels - 1) * f.counter + hops + by_elements(kept * part / element, c.channels, f);
  if (f.channel > Bandwidth{}) chain += (steps + 1) * std::max(0.0, lines - rounds) * at_once * units::B / f.channel;
  e.waits = std::max(Seconds{}, chain - e.link / e.rate);
  return e;
}

}  // namespace

Exchange ring(CollectiveKind kind, double bytes, const Group& g, const Choice& c, const FamilyScalars& f,
              Elements elements) {
  if (c.protocol == Protocol::ll) return ring_of_lines(kind, bytes, g, c, f, elements.bytes);
  const double steps = ring_steps(kind, g.ranks), between = ring_network_steps(kind, g.nodes);
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
    const double copies = kind == CollectiveKind::all_gather ? steps : 1;
    if (elements.ragged && kind != CollectiveKind::all_reduce)
      e.waits += by_elements(copies * bytes / g.ranks, c.channels, f);
  }
  return e;
}

Exchange chain(double bytes, const Group& g, const Choice& c, const FamilyScalars& f) {
  const double between = ring_network_steps(CollectiveKind::broadcast, g.nodes), steps = g.ranks - 1 - between;
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

Exchange tree(double bytes, const Group& g, const Choice& c, const FamilyScalars& f) {
  const double within = 2 * (g.ranks_per_node() - 1), between = 2 * std::floor(std::log2(g.nodes));
  const double longer =
      reckoned_hop(Algorithm::tree, c.protocol, g.path) / reckoned_hop(Algorithm::ring, c.protocol, g.path);
  Exchange e;
  e.rate = rate_of(g, f);
  e.link = e.staged = 2 * bytes * units::B;
  const Hops hop = hops_of(g, Algorithm::tree, c.protocol, f.step + f.per_cta);
  e.waits = within * longer * hop.inside + between * hop.network;
  return e;
}

Exchange pat(double bytes, const Group& g, const FamilyScalars& f) {
  Exchange e;
  e.rate = kPatShare * rate_of(g, f);
  e.link = (g.ranks - 1) / g.ranks * bytes * units::B;
  e.waits = std::max(Seconds{}, reckoned_pat_steps(g.ranks) +
                                    std::floor(std::log2(g.ranks)) *
                                        ways_of_network_hop(Algorithm::ring, Protocol::simple) * g.longer_network_way);
  return e;
}

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

Exchange collnet(CollectiveKind kind, double bytes, const Group& g, const Choice& c, const FamilyScalars& f) {
  const bool direct = c.algorithm == Algorithm::collnet_direct, reduces = kind == CollectiveKind::all_reduce;
  const double each = g.ranks_per_node(), others = each - 1, ways = reduces ? 2 : 1;
  const Hops hop = hops_of(g, c.algorithm, Protocol::simple, f.step + f.per_cta);
  const double longer =
      reckoned_hop(c.algorithm, Protocol::simple, g.path) / reckoned_hop(Algorithm::ring, Protocol::simple, g.path);
  Exchange e;
  move(e, direct ? ways * others / each * bytes : std::min(1.0, others) * ways * bytes, f.link_share * g.wire,
       bytes / each, g);
  e.staged = e.link;
  e.waits = ways * (direct ? std::min(1.0, others) : others) * longer * hop.inside + hop.network;
  if (direct) e.waits += ways * others * kCollnetArityMicroseconds * units::us;
  return e;
}

Exchange peers(double message, double others, const Group& g, const FamilyScalars& f, bool flags, bool staged,
               bool ragged) {
  Exchange e;
  e.rate = rate_of(g, f);
  e.link = others * message * units::B;
  if (g.nodes > 1) {  // what leaves the node goes by its own port
    const double away = g.ranks - g.ranks_per_node();
    e.rate = std::min(e.rate, others / away * g.network);
  }
  const Protocol protocol = flags ? Protocol::ll : Protocol::simple;
  const Hops hop = hops_of(g, Algorithm::ring, protocol, reckoned_hop(Algorithm::ring, protocol, g.path));
  // of the hop inside a node the family has what was measured
  e.waits = g.nodes > 1 ? hop.network : hop.inside - reckoned_hop(Algorithm::ring, protocol, g.path);
  if (flags) {
    e.waits += message * units::B / f.channel;
    return e;
  }
  e.waits += channel_times(message, others, e, f, staged);
  if (ragged) {
    const double channels = std::min(kPeerChannels, others * peer_channels(message, others + 1));
    e.waits += by_elements(others * message, channels, f);
  }
  if (staged) e.staged = e.link;
  return e;
}

Exchange along_rails(double message, const Group& g, const FamilyScalars& f, bool flags, bool staged) {
  const double each = g.ranks_per_node(), others = (each - 1) + (g.nodes - 1);
  Exchange e;
  move(e, (each - 1) * g.nodes * message, f.link_share * g.wire, (g.nodes - 1) * each * message, g);
  const Protocol protocol = flags ? Protocol::ll : Protocol::simple;
  const Hops hop = hops_of(g, Algorithm::ring, protocol, reckoned_hop(Algorithm::ring, protocol, g.path));
  e.waits = hop.inside + hop.network;
  const double longest = std::max(g.nodes, each) * message;
  if (flags) {
    e.waits += longest * units::B / f.channel;
    return e;
  }
  e.waits += channel_times(longest, others, e, f, staged);
  if (staged) e.staged = e.link;
  return e;
}

}  // namespace plumbline::nccl
