#include "ops/plan/peer_plan.hpp"

#include <algorithm>

#include "arch/dtype.hpp"
#include "arch/error.hpp"

namespace plumbline {
namespace {

/// Bytes beyond those of two shots that cost as much as its barriers: the crossing of both kernels' times on 2 and 4 H200
/// (2026-11-22), for kernels that load from peers, whose first answer must come back too, and for those that only store.
constexpr std::int64_t kLoadsBarrierBytes = std::int64_t{768} << 10, kStoresBarrierBytes = std::int64_t{384} << 10;
/// Buffers from here on leave L2 while all ranks' loads and stores are under way (two_shot.cu).
constexpr std::int64_t kInTurnBytes = std::int64_t{8} << 20;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t element_bytes(const Collective& s) {
  if (s.dtype == DType::bf16) return 2;
  if (s.dtype == DType::fp32) return 4;
  throw NotModelled(std::string(name(s.kind)) + ": our kernels add bf16 and fp32");
}

std::int64_t part_bytes(const Collective& s) { return peer_elements(s) * element_bytes(s); }

bool adds(CollectiveKind kind) { return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter; }

PeerPlan one_shot(const Collective& s, std::int64_t sms) {
  PeerPlan p;
  p.packs = ceil_div(part_bytes(s), kOneShotPackBytes);
  constexpr std::int64_t few = 256;
  const std::int64_t most = std::min(sms, kOneShotCtas);
  const std::int64_t each = std::max(std::min(p.packs, few), ceil_div(p.packs, most));
  p.ctas = ceil_div(p.packs, std::max<std::int64_t>(each, 1));  // every CTA has a pack
  p.threads = each > few ? 2 * few : few;
  return p;
}

PeerPlan two_shot(const Collective& s, std::int64_t sms) {
  PeerPlan p;
  p.algorithm = PeerAlgorithm::two_shot;
  p.threads = 512;
  p.barriers = 2;
  const std::int64_t bytes =
      s.kind == CollectiveKind::all_reduce ? all_reduce_part(s, 0).count * element_bytes(s) : part_bytes(s);
  p.packs = ceil_div(bytes, kTwoShotPackBytes);
  p.in_flight = adds(s.kind) ? peer_loads_in_flight(s.gpus) : kPeerStoresInFlight;
  p.ctas = std::clamp<std::int64_t>(ceil_div(p.packs, p.threads), 1, std::min(sms, kPeerCtas));
  p.in_turn = s.kind == CollectiveKind::all_reduce && s.bytes >= kInTurnBytes;
  return p;
}

}  // namespace

std::int64_t peer_elements(const Collective& s) {
  if (s.gpus < 1 || s.gpus > kPeerRanks) {
    throw BadInput(std::string(name(s.kind)) + ": gpus=" + std::to_string(s.gpus) + ": expected 1 to " +
                   std::to_string(kPeerRanks));
  }
  if (s.kind == CollectiveKind::broadcast || s.skew != 0) {
    throw NotModelled(std::string(name(s.kind)) +
                      ": our kernels broadcast nothing, and all ranks get parts of one size");
  }
  const std::int64_t unit = element_bytes(s) * (s.kind == CollectiveKind::all_reduce ? 1 : s.gpus);
  if (s.bytes < 0 || s.bytes % unit != 0) {
    throw BadInput(std::string(name(s.kind)) + ": bytes=" + std::to_string(s.bytes) + ": expected a multiple of " +
                   std::to_string(unit));
  }
  return s.bytes / unit;
}

PeerPart all_reduce_part(const Collective& s, std::int64_t rank) {
  const std::int64_t count = peer_elements(s), in_pack = kTwoShotPackBytes / element_bytes(s);
  const std::int64_t part = ceil_div(ceil_div(count, in_pack), s.gpus) * in_pack;
  const std::int64_t first = std::min(rank * part, count);
  return {first, std::min(part, count - first)};
}

std::optional<PeerPlan> peer_plan(const Collective& s, std::int64_t sms, PeerAlgorithm algorithm) {
  if (sms < 1) throw BadInput("a collective's plan: expected at least one SM");
  if (algorithm == PeerAlgorithm::two_shot) return two_shot(s, sms);
  const PeerPlan p = one_shot(s, sms);
  if (p.packs > p.ctas * kOneShotPacks) return {};
  return p;
}

PeerPlan peer_plan(const Collective& s, std::int64_t sms) {
  const std::optional<PeerPlan> one = peer_plan(s, sms, PeerAlgorithm::one_shot);
  const Bytes extra = peer_sent(s, PeerAlgorithm::one_shot) - peer_sent(s, PeerAlgorithm::two_shot);
  const std::int64_t barriers = adds(s.kind) ? kLoadsBarrierBytes : kStoresBarrierBytes;
  if (one && extra.in(units::B) <= static_cast<double>(barriers)) return *one;
  return two_shot(s, sms);
}

Bytes peer_sent(const Collective& s, PeerAlgorithm algorithm) {
  const double peers = static_cast<double>(s.gpus - 1), part = static_cast<double>(part_bytes(s));
  if (algorithm == PeerAlgorithm::one_shot) return 2 * peers * part * units::B;
  // Each part is read from every peer once, and the sum written to every peer once.
  if (s.kind == CollectiveKind::all_reduce) return 2 * peers / static_cast<double>(s.gpus) * part * units::B;
  return peers * part * units::B;
}

std::string_view kernel_name(CollectiveKind kind, PeerAlgorithm algorithm) {
  if (algorithm == PeerAlgorithm::one_shot) return "one_shot";
  if (kind == CollectiveKind::all_reduce) return "two_shot";
  return kind == CollectiveKind::reduce_scatter ? "pull" : "push";
}

std::string plan_text(const Collective& s, const PeerPlan& p) {
  return std::string(kernel_name(s.kind, p.algorithm)) + " ctas=" + std::to_string(p.ctas) +
         " threads=" + std::to_string(p.threads) + " in_flight=" + std::to_string(p.in_flight) +
         (p.in_turn ? " in_turn" : "") + (p.early ? " early" : "");
}

}  // namespace plumbline
