// What a collective of ours takes, by its plan:
//
//   time = fixed + (ranks - 2) * step + (what the links carry at a GPU's rate  combined with  what one CTA moves at its own)
//
// `fixed` holds the launch, the barriers (two of them but in one shot) and the first answer of a peer. `step`: what one more
// peer adds where a thread serves them one after the other; zero where it asks all of them at once. Links carry what
// loads and stores of all CTAs together reach: the probes' reads and writes of a peer's memory with every rank at it.
// Where CTAs have little to move each of them is a chain of latencies, so that the longer of the two is seen, or
// part of the shorter beside it (a p-norm). Ragged parts, which go by elements, are not modelled: they take up to
// three times as long.
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
  const Bandwidth rate = f.link_share * inner_wire(q.rates);
  const Seconds link = sent / rate;
  const Seconds together = pnorm_of_two(link, moved_by_a_cta(s, *plan) / f.channel, f.overlap);
  Seconds waits = (ranks - 2) * f.step + together - link + kernel.ways * longer_way(q.rates.fabric->inner());
  // a rank's own part is copied after the last peer's
  if (kernel.family == own::kPeerScatter) {
    const Bytes own_part = static_cast<double>(s.bytes) / ranks * units::B;
    waits += 2.0 * own_part / std::min(q.rates.dram_read, q.rates.dram_write);
  }
  out.sign(f);
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
