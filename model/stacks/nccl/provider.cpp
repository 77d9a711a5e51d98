// NCCL's collectives between GPUs. NCCL's own cost model says which algorithm and protocol runs (tuner.hpp); what those
// take (exchange.hpp) is a handful of scalars a protocol, fitted to published times (families of calibrations).
#include <algorithm>
#include <array>
#include <cmath>

#include "arch/error.hpp"
#include "arch/fabric/cluster.hpp"
#include "model/stacks/common/collective_choice.hpp"
#include "model/stacks/common/links.hpp"
#include "model/stacks/nccl/exchange.hpp"
#include "model/stacks/nccl/hierarchy.hpp"
#include "model/stacks/nccl/tuner.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {
namespace {

using nccl::Algorithm;
using nccl::Choice;
using nccl::Exchange;
using nccl::Group;
using nccl::Protocol;

enum Family : std::size_t { kRingLl, kRingLl128, kRingSimple, kNvls, kPeerLl, kPeerSimple, kFamilies };

// ragged: copied element by element
constexpr auto kRings =
    std::to_array<BandClass>({{Variant::usual, "collective_ring"}, {Variant::ragged, "collective_ragged"}});
constexpr auto kPeers =
    std::to_array<BandClass>({{Variant::usual, "collective_peer"}, {Variant::ragged, "collective_ragged"}});
/// What a call takes beside its links is code: a launch that reads its work, hops that poll flags and fence, channels
/// that load, add and store. A100 (1410 MHz) and Hopper (1980 MHz) by each other's scalars: -0.50 and +0.54 of
/// ln(measured / predicted) below 10 us as they are, -0.22 and +0.23 in cycles, -0.42 and +0.38 to 100 us, -0.11 and
/// +0.12 (training rows).
constexpr CarryOver kInCycles{.fixed_in_cycles = true, .chains_in_cycles = true};

constexpr std::array<FamilyDeclaration, kFamilies> kDeclared{
    {{.name = "nccl_ring_ll", .required = false, .carry = kInCycles, .kind = "collective", .classes = kRings},
     {.name = "nccl_ring_ll128", .required = false, .carry = kInCycles, .kind = "collective", .classes = kRings},
     {.name = "nccl_ring_simple", .required = false, .carry = kInCycles, .kind = "collective", .classes = kRings},
     {.name = "nccl_nvls", .required = false, .carry = kInCycles, .kind = "collective", .classes = kRings},
     {.name = "nccl_peer_ll", .required = false, .carry = kInCycles, .kind = "collective", .classes = kPeers},
     {.name = "nccl_peer_simple", .required = false, .carry = kInCycles, .kind = "collective", .classes = kPeers}}};

constexpr std::array<std::string_view, 8> kOps{"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                               "broadcast",  "send_recv",  "moe_dispatch",   "moe_combine"};

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

/// Whether switches copy and add for this collective: they add no 8-bit types (src/include/device.h, ncclNvlsSupported), and
/// an all-gather has nothing to add.
bool by_multicast(const Collective& s) {
  constexpr int kLeastBitsAdded = 16;
  return s.multicast && (s.kind == CollectiveKind::all_gather || bits(s.dtype) >= kLeastBitsAdded);
}

/// Parts begin at addresses that are multiples of 16.
bool whole_packs(double part) { return std::fmod(part, 16) == 0; }

/// Bytes as all ranks handle them: where they do not divide into as many parts, each part is as long as the longest, a
/// whole number of elements, as callers pad it (all ranks of a call pass the same count).
double evened(const Collective& s) {
  const double bytes = static_cast<double>(s.bytes), ranks = static_cast<double>(s.gpus);
  if (s.kind == CollectiveKind::all_reduce || s.kind == CollectiveKind::broadcast) return bytes;
  const double element = std::max(1.0, bits(s.dtype) / 8.0);
  return std::max(bytes, ranks * std::ceil(bytes / (ranks * element)) * element);
}

/// An all-gather's elements are bytes, whatever the caller's (src/enqueue.cc).
nccl::Elements elements_of(const Collective& s) {
  const double parts = evened(s) / static_cast<double>(s.gpus);
  return {s.kind == CollectiveKind::all_gather ? 1 : std::max(1.0, bits(s.dtype) / 8.0), !whole_packs(parts)};
}

class Nccl final : public Provider {
 public:
  std::string_view name() const override { return "nccl"; }
  std::span<const FamilyDeclaration> families() const override { return kDeclared; }
  std::span<const std::string_view> ops() const override { return kOps; }

  bool plan(const Question& q, Answer& out) const override {
    if (const auto* transfer = std::get_if<Transfer>(&q.op)) {
      if (transfer->kind != TransferKind::send_recv) return false;
      return exchange(static_cast<double>(transfer->bytes), 1, group_of(q, 2, static_cast<double>(transfer->stride)),
                      q.work, q, out);
    }
    if (const auto* rows = std::get_if<ExpertExchange>(&q.op)) return exchange_rows(*rows, q, out);
    const auto* s = std::get_if<Collective>(&q.op);
    if (s == nullptr) return false;
    if (s->gpus < 2) return false;  // a copy at most
    if (q.collective == CollectiveChoice::hierarchical) return in_levels(*s, q, out);
    return one_call(*s, q.work, q, out);
  }

 private:
  /// Each call waits for the one before it, and is the stack's own.
  static bool in_levels(const Collective& s, const Question& q, Answer& out) {
    if (!is_algorithm_of(q.collective, s.kind) && q.priced_alone) {
      throw BadInput("--collective hierarchical: expected a collective that its callers lay out in levels (all but " +
                     std::string(plumbline::name(s.kind)) + ", which has rail-aligned)");
    }
    const std::int64_t per_node = q.rates.fabric == nullptr ? s.gpus : q.rates.fabric->gpus_per_node();
    const bool has_levels = is_algorithm_of(q.collective, s.kind);
    const std::vector<Collective> calls = has_levels ? nccl::calls_in_levels(s, per_node) : std::vector<Collective>{};
    if (calls.empty()) return one_call(s, q.work, q, out);
    for (const Collective& call : calls) one_call(call, work(Op{call}), q, out);
    return true;
  }

  static bool one_call(const Collective& s, const Work& work, const Question& q, Answer& out) {
    const double ranks = static_cast<double>(s.gpus), bytes = evened(s);
    Group g = group_of(q, ranks, static_cast<double>(s.stride));
    g.multicast = g.multicast && by_multicast(s);
    // nobody timed NCCL by PCIe or between nodes for these families
    out.unmeasured = out.unmeasured || g.path == nccl::Path::pcie || g.nodes > 1;
    if (s.kind == CollectiveKind::all_to_all) {  // as long as the busiest rank takes
      return exchange((1 + s.skew / 100) * bytes / ranks, ranks - 1, g, work, q, out, !whole_packs(bytes / ranks));
    }
    const Choice c = nccl::choose(s.kind, bytes, g, forced(s, q), told(q));
    // those who timed NCCL let it choose the protocol
    const bool other = told(q) && nccl::choose(s.kind, bytes, g, forced(s, q)).protocol != c.protocol;
    out.unmeasured = out.unmeasured || other;
    if (c.algorithm == Algorithm::nvls || c.algorithm == Algorithm::nvls_tree) {
      const FamilyScalars& f = family_on_file(q, kNvls);
      out.unmeasured = out.unmeasured || s.kind != CollectiveKind::all_reduce;
      const char* kernel = c.algorithm == Algorithm::nvls ? "nccl nvls" : "nccl nvls tree";
      return launch({kernel, nvls(s.kind, bytes, g, c, f), c.channels, ranks}, f, work, q, out);
    }
    if (c.algorithm == Algorithm::collnet_direct || c.algorithm == Algorithm::collnet_chain) {
      const FamilyScalars& f = family_on_file(q, kRingSimple);
      const char* kernel = c.algorithm == Algorithm::collnet_direct ? "nccl collnet direct" : "nccl collnet chain";
      return launch({kernel, collnet(s.kind, bytes, g, c, f), c.channels, ranks}, f, work, q, out);
    }
    constexpr std::array<std::array<const char*, 3>, 2> kKernels{
        {{"nccl ring ll", "nccl ring ll128", "nccl ring simple"},
         {"nccl tree ll", "nccl tree ll128", "nccl tree simple"}}};
    const auto protocol = static_cast<std::size_t>(c.protocol);
    const FamilyScalars& f = family_on_file(q, static_cast<Family>(kRingLl + protocol));
    if (s.kind == CollectiveKind::broadcast) {
      out.unmeasured = true;
      return launch({kKernels[0][protocol], chain(bytes, g, c, f), c.channels, ranks}, f, work, q, out);
    }
    if (c.algorithm == Algorithm::pat)
      return launch({"nccl pat simple", pat(bytes, g, f), c.channels, ranks}, f, work, q, out);
    const bool up_and_down = c.algorithm == Algorithm::tree;
    const nccl::Elements elements = elements_of(s);
    const Exchange e = up_and_down ? tree(bytes, g, c, f) : ring(s.kind, bytes, g, c, f, elements);
    launch({kKernels[up_and_down ? 1 : 0][protocol], e, c.channels, ranks}, f, work, q, out);
    const bool by_elements =
        elements.ragged && !up_and_down && c.protocol == Protocol::simple && s.kind != CollectiveKind::all_reduce;
    if (by_elements) out.sign(f, Variant::ragged);
    return true;
  }

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
      case CollectiveChoice::hierarchical: return {};  // each of the calls as NCCL chooses
      case CollectiveChoice::rail_aligned:
        throw BadInput(std::string(plumbline::name(s.kind)) +
                       ": rail-aligned is of all_to_all; NCCL's rings and trees keep to their rails by themselves");
      case CollectiveChoice::one_shot:
      case CollectiveChoice::two_shot: break;
    }
    throw BadInput(
        "one-shot and two-shot collectives are no algorithms of NCCL, and the stack has no other kernel for this one");
  }

  static std::optional<Protocol> told(const Question& q) {
    switch (q.protocol) {
      case CollectiveProtocol::ll: return Protocol::ll;
      case CollectiveProtocol::ll128: return Protocol::ll128;
      case CollectiveProtocol::simple: return Protocol::simple;
      case CollectiveProtocol::automatic: break;
    }
    return {};
  }

  /// Where the stack has no kernels that know a token's experts: an all-to-all of all routed rows.
  static bool exchange_rows(const ExpertExchange& s, const Question& q, Answer& out) {
    if (s.gpus < 2) return false;
    const double ranks = static_cast<double>(s.gpus),
                 rows = static_cast<double>(s.tokens) * static_cast<double>(s.topk);
    const Group g = group_of(q, ranks, 1);
    out.unmeasured = g.path == nccl::Path::pcie || g.nodes > 1;
    return exchange((1 + s.skew / 100) * rows / ranks * row_bytes(s).in(units::B), ranks - 1, g, q.work, q, out);
  }

  static bool exchange(double message, double others, const Group& g, const Work& work, const Question& q, Answer& out,
                       bool ragged = false) {
    const bool flags = message <= nccl::kFlaggedMessage;
    const bool aligned = q.collective == CollectiveChoice::rail_aligned && g.nodes > 1 && g.ranks_per_node() > 1;
    const FamilyScalars& f = family_on_file(q, flags ? kPeerLl : kPeerSimple);
    const double channels = std::min(nccl::kPeerChannels, others * nccl::peer_channels(message, others + 1));
    const Exchange e =
        aligned ? along_rails(message, g, f, flags, q.queued) : peers(message, others, g, f, flags, q.queued, ragged);
    launch({flags ? "nccl send/recv ll" : "nccl send/recv simple", e, channels, others + 1}, f, work, q, out);
    if (ragged && !flags && !aligned) out.sign(f, Variant::ragged);
    return true;
  }

  struct Kernel {
    const char* name;
    Exchange exchange;
    double channels, ranks;
  };

  static bool launch(const Kernel& kernel, const FamilyScalars& f, const Work& work, const Question& q, Answer& out) {
    const Exchange& e = kernel.exchange;
    out.sign(f);
    Demand& d = out.launch(kernel.name, f) = Demand{};
    d.plan.ctas = static_cast<std::int64_t>(kernel.channels);
    d.link = e.link;
    d.link_rate = e.rate;
    d.staged = e.staged;
    // memory moves beside the links: what takes longer
    const Seconds memory = work.bytes() / std::min(q.rates.dram_read, q.rates.dram_write) - e.link / e.rate;
    d.serial_latency = std::max(Seconds{}, memory) + std::max(-f.fixed, e.waits) + q.collective_call.of(kernel.ranks);
    d.serial_latency_of = "of hops, of a message's first part at one channel's rate, and of the stack's call";
    // beside the link's time, not in it
    out.read_beside += work.read;
    out.written_beside += work.write;
    return true;
  }
};

}  // namespace

const Provider& nccl_provider() {
  static const Nccl provider;
  return provider;
}

}  // namespace plumbline
