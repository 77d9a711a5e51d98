// DeepEP's kernels for experts that live on other ranks (github.com/deepseek-ai/DeepEP), as SGLang and vLLM call them.
//
// Low latency (csrc/kernels/internode_ll.cu): one cooperative launch. SMs take tokens in turn, quantize each and store a
// message for each of its experts right into the expert's rank (NVLink) or hand it to the network's card (RDMA): no copy is
// saved where two experts share a rank. Behind a barrier of the grid a group of warps for each pair of expert and rank waits
// for that pair's messages and copies them to where the experts' GEMM reads. Combine goes the other way in bf16: the group
// of a pair stores its rows into the tokens' rank, and behind the barrier SMs add up the rows of a token. With E experts
// on m SMs there are g = ceil(E / m) groups of floor(32 / g) warps an SM, and ceil(E / g) SMs.
//
//   time = fixed + E / 32 rounds of counters + p-norm(links, rounds of a warp) + what the second part copies or adds
//
// High throughput, inside a node (intranode.cu): half of the SMs that it is given send, half receive, each pair a channel
// with a part of the tokens. A channel's warps are divided among the ranks; each looks at all of the channel's tokens and
// stores those of its rank into a queue there: once a rank, however many of its experts a token goes to.
// Between nodes (internode.cu): a token goes to each node once, to the GPU in the sender's place, which passes it on by
// NVLink. A notifying kernel before either tells how many come.
//
//   time = fixed + p-norm(links, tokens of a channel x (looks + copies of its warps)) + the first chunk's way in
//
// Scalars a kernel, fitted to published times on one node and on several apart (tools/fit_collectives.sh): `fixed_s`,
// `step_s` a message of a warp, `channel_B_per_s` what one warp copies, `link_share_fraction` of the NVLinks or of the
// network, `overlap`, `exposed` of a row's way by one warp before the first is there; `counter_s` a round of counters (low
// latency), one look at a token or the sum of 256 columns of one (high throughput) in a node, between nodes what each doubling of them adds. Kernels of low
// latency post their messages between nodes as inside one, and the network's share is theirs for the others too, whose
// rows hold no more than 128 tokens. What is counted: messages, their bytes, warps, rounds.
// Nobody's times of another card than the H100 are on file, and none beyond eight nodes.
#include <algorithm>
#include <array>
#include <cmath>

#include "arch/error.hpp"
#include "arch/fabric/cluster.hpp"
#include "model/stacks/common/links.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {
namespace {

enum DeepEpFamily : std::size_t {
  kLowDispatch,
  kLowCombine,
  kDispatch,
  kCombine,
  kLowDispatchNetwork,
  kLowCombineNetwork,
  kDispatchNetwork,
  kCombineNetwork,
  kDeepEpFamilies
};

constexpr auto kExpertMoves = std::to_array<BandClass>({{Variant::usual, "collective_experts"}});
constexpr FamilyDeclaration declared(const char* name) {
  FamilyDeclaration f;
  f.name = name;
  f.required = false;
  f.kind = "collective";
  f.classes = kExpertMoves;
  return f;
}
constexpr std::array<FamilyDeclaration, kDeepEpFamilies> kDeepEpDeclared{declared("deepep_low_dispatch"),
                                                                         declared("deepep_low_combine"),
                                                                         declared("deepep_dispatch"),
                                                                         declared("deepep_combine"),
                                                                         declared("deepep_low_dispatch_network"),
                                                                         declared("deepep_low_combine_network"),
                                                                         declared("deepep_dispatch_network"),
                                                                         declared("deepep_combine_network")};
constexpr std::array<std::string_view, 2> kDeepEpOps{"moe_dispatch", "moe_combine"};

constexpr double kWarpsOfAnSm = 32;   // of the kernels of low latency
constexpr double kSendingWarps = 24;  // of a channel
constexpr double kCountersARound = 32;
/// Rows of a warp behind which the receiver is told: the least chunk that DeepEP's own tuning tries is four rows of three
/// warps to dispatch, and one to combine.
constexpr double kRowsOfADispatchedChunk = 2, kRowsOfACombinedChunk = 1;
constexpr double kColumnsSummedAtATime = 256;  // 32 lanes of eight bf16
constexpr std::int64_t kMostRanksOfANode = 8;

/// The ranks and what lies between them.
struct Ranks {
  double all = 1, of_a_node = 1, nodes = 1;
  Bandwidth wire, network;  ///< a GPU, one direction
  Seconds longer_way;       ///< to the ranks farthest away
  double here() const { return of_a_node / all; }

  /// Shares of what a rank sends to each rank equally: by NVLink, and by the network.
  double by_nvlink() const { return (of_a_node - 1) / all; }
  double by_network() const { return 1 - here(); }
};

bool joined_by_nvlink(const Rates& m) {
  return m.fabric != nullptr && m.fabric->inner().kind != LinkKind::pcie &&
         m.fabric->gpus_per_node() <= kMostRanksOfANode;
}

std::optional<Ranks> ranks_of(const ExpertExchange& s, const Rates& m) {
  if (!joined_by_nvlink(m) || s.gpus < 2) return std::nullopt;
  const Cluster& cluster = *m.fabric;
  Ranks r;
  r.all = static_cast<double>(s.gpus);
  r.of_a_node = static_cast<double>(std::min(s.gpus, cluster.gpus_per_node()));
  r.nodes = std::ceil(r.all / r.of_a_node);
  r.wire = inner_wire(m);
  r.longer_way = longer_way(cluster.inner());
  if (r.nodes == 1) return r;
  const FabricTier& tier = cluster.tiers[cluster.tier_of(s.gpus)];
  if (&tier == &cluster.inner()) return std::nullopt;
  r.network = tier.bandwidth / tier.oversubscription;
  r.longer_way = longer_way(tier);
  return r;
}

struct Links {
  Bytes bytes;
  Bandwidth rate;
  Seconds time() const { return bytes / rate; }
};

/// What `copies` of a token of a rank take on their way: side by side by NVLink and by the network, as long as the longer.
Links slower_of(Links nvlink, Links network) { return network.time() > nvlink.time() ? network : nvlink; }

/// Of the kernel between these ranks, inside one node, and of the kernel of low latency between them.
struct ExpertFamilies {
  const FamilyScalars &here, &inside, &low;
};

/// Times of one execution.
struct Moves {
  Links links;
  Seconds chain;   ///< of the warp that has most, beside the links
  Seconds behind;  ///< the second part: it waits for the first
  double sms = 1;
};

/// Passes `bytes` through a launch's SMs, in and out: lines that L2 holds come from there.
Seconds pass(Bytes in, Bytes out, const Rates& m) {
  const Bytes all = in + out, beyond = std::max(Bytes{}, all - m.l2_held());
  const double far = all > Bytes{} ? beyond / all : 0;
  return all / m.l2 + far * (in / m.dram_read + out / m.dram_write);
}

Moves low_latency(const ExpertExchange& s, const Ranks& r, const Rates& m, const ExpertFamilies& f) {
  const bool back = s.kind == ExpertExchangeKind::combine;
  const double experts = static_cast<double>(s.experts), tokens = static_cast<double>(s.tokens);
  const double groups = std::ceil(experts / m.sm_count), warps = std::max(1.0, std::floor(kWarpsOfAnSm / groups));
  constexpr double kHeader = 16;  // bytes: where the token comes from
  const double messages = tokens * static_cast<double>(s.topk);
  const Bytes row = row_bytes(s) + (back ? 0 : kHeader) * units::B, all = messages * row;
  Moves moves;
  moves.sms = std::ceil(experts / groups);
  const double busiest = 1 + s.skew / 100;
  moves.links = {busiest * r.by_nvlink() * all, f.inside.link_share * r.wire};
  if (r.nodes > 1) moves.links = slower_of(moves.links, {busiest * r.by_network() * all, f.low.link_share * r.network});
  // a token an SM at a time; of a pair's messages one a warp at a time
  const double turns = std::ceil(tokens / moves.sms), of_a_warp = std::max(1.0, messages / experts / warps);
  const Seconds message = f.inside.step + row / f.inside.channel;
  const Bytes whole = storage(DType::bf16, static_cast<double>(s.cols));
  const Seconds counters = std::ceil(experts / kCountersARound) * f.inside.counter;
  if (back) {
    moves.chain = of_a_warp * message;
    const Bytes added = turns * static_cast<double>(s.topk) * whole;
    moves.behind = counters + std::max(pass(all, tokens * whole, m), added / m.l2_per_sm);
  } else {
    moves.chain = turns * message;
    moves.behind = counters + pass(busiest * all, busiest * all, m);
  }
  if (r.nodes > 1) moves.behind += std::log2(r.nodes) * f.here.counter;
  moves.behind += r.longer_way;  // a counter follows its messages on their way
  return moves;
}

Moves high_throughput(const ExpertExchange& s, const Ranks& r, const ExpertFamilies& all) {
  const FamilyScalars& f = all.here;
  const double tokens = static_cast<double>(s.tokens), channels = std::max(1.0, static_cast<double>(s.sms) / 2);
  const double copies = ranks_reached(s, r.of_a_node), busiest = 1 + s.skew / 100;
  const Bytes row = row_bytes(s);
  Moves moves;
  moves.sms = static_cast<double>(s.sms);
  // of the ranks that a token goes to, inside the receiving node and by NVLink all but the one in the sender's place
  moves.links = {busiest * (r.of_a_node - 1) / r.of_a_node * copies * tokens * row, all.inside.link_share * r.wire};
  if (r.nodes > 1) {
    ExpertExchange by_node = s;
    by_node.gpus = static_cast<std::int64_t>(r.nodes);
    const double others = (r.nodes - 1) / r.nodes * ranks_reached(by_node, 1);
    moves.links = slower_of(moves.links, {busiest * others * tokens * row, all.low.link_share * r.network});
  }
  const double of_a_channel = tokens / channels, of_a_warp = of_a_channel * copies / kSendingWarps;
  const bool back = s.kind == ExpertExchangeKind::combine;
  const double chunk = back ? kRowsOfACombinedChunk : kRowsOfADispatchedChunk;
  const double looks = back ? static_cast<double>(s.cols) / kColumnsSummedAtATime : 1;
  const Seconds message = f.step + row / f.channel;
  moves.chain = of_a_warp * message;
  moves.behind = std::min(chunk, of_a_warp) * message + f.exposed * (row / f.channel);
  if (r.nodes > 1) moves.behind += std::log2(r.nodes) * f.counter;
  else moves.chain += of_a_channel * looks * f.counter;
  moves.behind += 2.0 * r.longer_way;  // the notifying kernel's word, then the first chunk
  return moves;
}

class DeepEp final : public Provider {
 public:
  std::string_view name() const override { return "deepep"; }
  std::span<const FamilyDeclaration> families() const override { return kDeepEpDeclared; }
  std::span<const std::string_view> ops() const override { return kDeepEpOps; }

  bool exchanges_tokens(std::span<const FamilyScalars> families, const Rates& m) const override {
    return joined_by_nvlink(m) && families[kLowDispatch].on_file && families[kDispatch].on_file;
  }

  bool plan(const Question& q, Answer& out) const override {
    const auto* s = std::get_if<ExpertExchange>(&q.op);
    if (s == nullptr) return false;
    const std::optional<Ranks> ranks = ranks_of(*s, q.rates);
    if (!ranks) return false;
    const bool low = s->sms == 0, back = s->kind == ExpertExchangeKind::combine;
    const std::size_t inside = (low ? kLowDispatch : kDispatch) + (back ? 1U : 0U);
    const std::size_t family = inside + (ranks->nodes > 1 ? kLowDispatchNetwork - kLowDispatch : 0U);
    const std::size_t low_family = family - (low ? 0U : kDispatch - kLowDispatch);
    const ExpertFamilies f{q.families[family], q.families[inside], q.families[low_family]};
    if (!f.here.on_file || !f.inside.on_file || !f.low.on_file) {
      throw NotModelled("no times of DeepEP (" + std::string(kDeepEpDeclared[family].name) + ") are on file for " +
                        q.gpu);
    }
    const Moves moves = low ? low_latency(*s, *ranks, q.rates, f) : high_throughput(*s, *ranks, f);
    constexpr std::array<std::array<const char*, 2>, 2> kKernels{
        {{"deepep dispatch", "deepep combine"}, {"deepep low-latency dispatch", "deepep low-latency combine"}}};
    launch(kKernels[low ? 1 : 0][back ? 1 : 0], moves, f.here, q, out);
    return true;
  }

 private:
  static void launch(const char* kernel, const Moves& moves, const FamilyScalars& f, const Question& q, Answer& out) {
    out.sign(f);
    Demand& d = out.launch(kernel, f) = Demand{};
    d.plan.ctas = static_cast<std::int64_t>(moves.sms);
    d.link = moves.links.bytes;
    d.link_rate = moves.links.rate;
    const Seconds links = moves.links.time();
    d.serial_latency = std::max(-f.fixed, pnorm_of_two(links, moves.chain, f.overlap) - links + moves.behind);
    d.serial_latency_of = "of a warp's messages beside the links, and of what copies or adds them on arrival";
    out.read_beside = q.work.read;
    out.written_beside = q.work.write;
  }
};

}  // namespace

const Provider& deepep_provider() {
  static const DeepEp provider;
  return provider;
}

}  // namespace plumbline
