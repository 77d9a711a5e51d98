// How our own collectives over NVLink cut their work: plain loads and stores to peers' memory, no multicast. What the
// model prices is what kernels/collective launches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "arch/units.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// one_shot: every rank stores what a peer needs beside a flag (8 bytes of data to a 16-byte store) into a buffer of
/// the peer, which waits for each flag: no barrier, twice the bytes. two_shot: 16-byte accesses of the peers' own
/// buffers between two barriers.
enum class PeerAlgorithm { one_shot, two_shot };

struct PeerPlan {
  PeerAlgorithm algorithm = PeerAlgorithm::one_shot;
  std::int64_t ctas = 0, threads = 0;
  std::int64_t packs =
      0;  ///< of all CTAs, for one peer: 8 bytes of data each in one shot, 16 in two (2 or 4 at ragged ends)
  std::int64_t in_flight = 1;  ///< packs that a thread has asked each peer for before it waits
  std::int64_t barriers = 0;
  bool in_turn = false;  ///< all_reduce: a thread adds its whole share before it stores any of it to the peers
  bool early = false;    ///< its CTAs are placed while the launch before still runs (programmatic dependent launch)
  bool operator==(const PeerPlan&) const = default;
};

/// The most ranks a group has, CTAs a launch has, and packs one CTA's part of the one-shot buffer holds.
inline constexpr std::int64_t kPeerRanks = 16, kPeerCtas = 256, kOneShotCtas = 128, kOneShotPacks = 1024;
inline constexpr std::int64_t kOneShotPackBytes = 8, kTwoShotPackBytes = 16;

/// Packs a thread of the reducing kernel asks each of `ranks` sources for at once: 16 loads in all, so that registers
/// suffice.
constexpr std::int64_t peer_loads_in_flight(std::int64_t ranks) {
  return ranks <= 2 ? 8 : ranks <= 4 ? 4 : ranks <= 8 ? 2 : 1;
}
/// Packs a thread of the storing kernel (all_gather, all_to_all) loads before it stores.
inline constexpr std::int64_t kPeerStoresInFlight = 4;

/// Elements in the part that one rank contributes to each peer: all_reduce's whole buffer, else its gpus-th part.
/// BadInput for bytes that do not divide, and for more ranks than kPeerRanks.
std::int64_t peer_elements(const Collective& shape);
/// First element and number of elements of the part of an all_reduce that `rank` adds in two shots: whole 16-byte packs,
/// the last parts may be shorter or empty.
struct PeerPart {
  std::int64_t first = 0, count = 0;
};
PeerPart all_reduce_part(const Collective& shape, std::int64_t rank);

/// On a card with `sms` SMs (or as many as the caller grants). Empty: the one-shot buffer is too small.
std::optional<PeerPlan> peer_plan(const Collective& shape, std::int64_t sms, PeerAlgorithm algorithm);
/// One shot while its extra bytes cost no more than two barriers do.
PeerPlan peer_plan(const Collective& shape, std::int64_t sms);

/// What one rank sends over its links, flags beside data included, packet headers not. A read counts at the rank that
/// is read from.
Bytes peer_sent(const Collective& shape, PeerAlgorithm algorithm);

/// "one_shot"; two_shot is "two_shot" of all_reduce, "pull" of reduce_scatter, "push" of the others.
std::string_view kernel_name(CollectiveKind kind, PeerAlgorithm algorithm);
/// "one_shot ctas=4 threads=256 in_flight=1", " early" behind.
std::string plan_text(const Collective& shape, const PeerPlan& plan);

}  // namespace plumbline
