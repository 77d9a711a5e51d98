// What a collective of ours takes, by its plan:
//
//   time = fixed + (ranks - 2) * step + (what the links carry at a GPU's rate  combined with  what one CTA moves at its own)
//
// `fixed` holds the launch, the barriers (two of them but in one shot) and the first answer of a peer. `step`: what one
// more peer adds where a thread serves them one after the other; zero where it asks all of them at once. Links carry
// what loads and stores of all CTAs together reach: the probes' reads and writes of a peer's memory with every rank at
// it. Where CTAs have little to move each of them is a chain of latencies, so that the longer of the two is seen, or
// part of the shorter beside it (a p-norm).
//
// Parts that are no whole 16 bytes go another way (kernels/collective/two_shot.cu). What is added goes by elements: a
// thread asks every rank for one, waits and stores the sum, so that each turn of all threads is one answer's way
// (`counter`), beside what the links carry. What is pushed goes by words of 4 or 2 bytes, of which the links carry more
// packets, written in part; that a CTA has more turns of them is not seen beside that (training rows of two H200).
#include "model/stacks/own/plan_peers.hpp"

#include <algorithm>
#include <cmath>

#include "model/stacks/common/links.hpp"
#include "model/stacks/own/own_kernels.hpp"
#include "ops/plan/peer_plan.hpp"

namespace plumbline {
namespace {

struct PeerKernel {
  own::Family family;
  const char* name;
  double ways;  ///< across the links, one after the other
};

PeerKernel kernel_of(CollectiveKind kind, PeerAlgorithm algorithm) {
  if (algorithm == PeerAlgorithm::one_shot) return {own::kPeerOneShot, "one-shot", kFlaggedData};
  if (kind == CollectiveKind::all_reduce) return {own::kPeerTwoShot, "two-shot", kLoadBetweenBarriers};
  if (kind == CollectiveKind::reduce_scatter) return {own::kPeerPull, "pull from peers", kLoadBetweenBarriers};
  if (kind == CollectiveKind::all_to_all) return {own::kPeerScatter, "scatter to peers", kStoreBetweenBarriers};
  return {own::kPeerPush, "push to peers", kStoreBetweenBarriers};
}

/// Whole elements, and a type that the kernels add.
bool has_kernel(const Collective& s) {
  if (s.dtype != DType::bf16 && s.dtype != DType::fp32) return false;
  if (s.kind == CollectiveKind::broadcast || s.skew != 0) return false;
  const std::int64_t element = s.dtype == DType::bf16 ? 2 : 4;
  return s.bytes % (element * (s.kind == CollectiveKind::all_reduce ? 1 : s.gpus)) == 0;
}

std::optional<PeerPlan> plan_of(const Collective& s, const Question& q) {
  const auto sms = static_cast<std::int64_t>(q.rates.sm_count);
  const bool of_nccl = q.protocol != CollectiveProtocol::automatic && s.kind != CollectiveKind::all_to_all;
  if (of_nccl) return {};
  switch (q.collective) {
    case CollectiveChoice::automatic: return peer_plan(s, sms);
    case CollectiveChoice::one_shot: return peer_plan(s, sms, PeerAlgorithm::one_shot);
    case CollectiveChoice::two_shot: return peer_plan(s, sms, PeerAlgorithm::two_shot);
    default: return {};
  }
}

std::int64_t element_bytes(const Collective& s) { return s.dtype == DType::bf16 ? 2 : 4; }

bool adds(CollectiveKind kind) { return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter; }

/// Whether all of a part but the first rank's goes by elements: it begins at no pack.
bool begins_ragged(const Collective& s, const PeerPlan& p) {
  return p.algorithm == PeerAlgorithm::two_shot && s.kind == CollectiveKind::reduce_scatter &&
         peer_elements(s) * element_bytes(s) % kTwoShotPackBytes != 0;
}

/// Whether what a rank has for a peer is no whole 16 bytes: where not all goes by elements, the ends of parts do.
bool is_ragged(const Collective& s) { return peer_elements(s) * element_bytes(s) % kTwoShotPackBytes != 0; }

/// Turns of all threads that go by elements, of the rank that has most of them: a part that begins at no pack, or what
/// an all-reduce has behind its last pack.
double turns_by_elements(const Collective& s, const PeerPlan& p) {
  if (p.algorithm == PeerAlgorithm::one_shot) return 0;
  if (begins_ragged(s, p)) {
    return std::ceil(static_cast<double>(peer_elements(s)) / static_cast<double>(p.ctas * p.threads));
  }
  return s.kind == CollectiveKind::all_reduce && s.bytes % kTwoShotPackBytes != 0 ? 1 : 0;
}

/// Bytes of one store of a thread that pushes: the widest word that divides a part.
double pushed_word(const Collective& s, const PeerPlan& p) {
  if (p.algorithm == PeerAlgorithm::one_shot || adds(s.kind)) return kTwoShotPackBytes;
  const std::int64_t part = peer_elements(s) * element_bytes(s);
  if (part % kTwoShotPackBytes == 0) return kTwoShotPackBytes;
  return part % 4 == 0 ? 4 : 2;
}

/// Share of the links' rate that a warp's stores of narrow words reach where 16-byte ones reach `whole`. What a warp
/// writes at once begins at any word of a line of 128 bytes: it lies in two lines for some of the places, a packet
/// each, and touches sectors of 32 bytes that it writes in part. `whole` says what a packet of a line has beside its
/// data; one that is written in part has 16 bytes of byte enables more (NVLink's packets: flits of 16 bytes, a
/// header's, the data's and, where it is needed, one of byte enables).
double share_of_words(double whole, double word) {
  constexpr double line = 128, sector = 32, byte_enables = 16, lanes = 32;
  const double written = lanes * word;
  const double packets = 1 + (written - word) / line;
  const double touched = written + sector - word;
  const double beside_data = line * (1 / whole - 1) + byte_enables;
  return written / (touched + packets * beside_data);
}

/// What one CTA loads from and stores to its peers.
Bytes moved_by_a_cta(const Collective& s, const PeerPlan& p) {
  const double packs = std::ceil(static_cast<double>(p.packs) / static_cast<double>(p.ctas));
  const bool both_ways = s.kind == CollectiveKind::all_reduce && p.algorithm == PeerAlgorithm::two_shot;
  return (both_ways ? 2 : 1) * static_cast<double>(s.gpus - 1) * packs * 16 * units::B;
}

}  // namespace

bool plan_own_collective(const Collective& s, const Question& q, Answer& out) {
  if (!reach_each_other(s, kPeerRanks, q.rates) || !has_kernel(s)) return false;
  const std::optional<PeerPlan> plan = plan_of(s, q);
  if (!plan) return false;
  const PeerKernel kernel = kernel_of(s.kind, plan->algorithm);
  const FamilyScalars& f = q.families[kernel.family];
  if (!f.on_file) return false;

  const double ranks = static_cast<double>(s.gpus);
  const Bytes sent = peer_sent(s, plan->algorithm);
  const double word = pushed_word(s, *plan);
  const double share = word < kTwoShotPackBytes ? share_of_words(f.link_share, word) : f.link_share;
  const Bandwidth rate = share * inner_wire(q.rates);
  const Seconds link = sent / rate;
  const Seconds by_packs = begins_ragged(s, *plan) ? Seconds{} : moved_by_a_cta(s, *plan) / f.channel;
  const Seconds together = pnorm_of_two(link, by_packs, f.overlap) + turns_by_elements(s, *plan) * f.counter;
  Seconds waits = (ranks - 2) * f.step + together - link + kernel.ways * longer_way(q.rates.fabric->inner());
  // a rank's own part is copied after the last peer's
  if (kernel.family == own::kPeerScatter) {
    const Bytes own_part = static_cast<double>(s.bytes) / ranks * units::B;
    waits += 2.0 * own_part / std::min(q.rates.dram_read, q.rates.dram_write);
  }
  out.sign(f, is_ragged(s) ? Variant::ragged : Variant::usual);
  Demand& d = out.launch(kernel.name, f) = Demand{};
  d.plan.ctas = plan->ctas;
  d.link = sent;
  d.link_rate = rate;
  d.serial_latency = std::max(-f.fixed, waits);
  d.serial_latency_of = "of one peer after the other, and of what a CTA's own chain adds to the link's time";
  out.read_beside = q.work.read;
  out.written_beside = q.work.write;
  return true;
}

}  // namespace plumbline
