#include "ops/shape/transfer.hpp"

#include <algorithm>
#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kTransferNames =
    std::to_array<OperatorName>({{"send_recv", static_cast<int>(TransferKind::send_recv), false, Pattern::none},
                                 {"h2d", static_cast<int>(TransferKind::h2d), false, Pattern::none},
                                 {"d2h", static_cast<int>(TransferKind::d2h), false, Pattern::none},
                                 {"d2d", static_cast<int>(TransferKind::d2d), false, Pattern::none},
                                 {"p2p_copy", static_cast<int>(TransferKind::p2p_copy), false, Pattern::none}});
static_assert(in_order(kTransferNames));

constexpr auto kTransferKeys = std::to_array<Key>(
    {key<&Transfer::bytes>("bytes"), optional_key<&Transfer::stride>("stride"), optional_key<&Transfer::both>("both")});

bool is_host_copy(const Transfer& s) { return s.kind == TransferKind::h2d || s.kind == TransferKind::d2h; }

constexpr auto kTransferRelations = std::to_array<Relation<Transfer>>(
    {{"key 'both': expected with h2d and d2h alone", [](const Transfer& s) { return !s.both || is_host_copy(s); },
      [](Transfer& s) { s.both = false; }}});

/// Device memory only: h2d reads the host's. send_recv: a rank sends one buffer and receives one.
Work work_of(const Transfer& s) {
  const Bytes bytes = byte(d(s.bytes));
  Work w;
  if (s.kind != TransferKind::h2d) w.read = bytes;
  if (s.kind != TransferKind::d2h) w.write = bytes;
  if (s.kind != TransferKind::d2d) w.link = bytes;
  return w;
}

Volume volume_of(const Transfer& s) { return {d(s.bytes), 0}; }

/// What came from another rank goes back to it; copies between memories are in no forward pass.
void gradient_of(const Transfer& s, NodeRole, Gradient& out) {
  if (s.kind == TransferKind::send_recv) out.add(GradientPart::whole, s);
}

}  // namespace

const Facts<Transfer>& Transfer::facts() {
  static constexpr Facts<Transfer> kFacts{
      .names = kTransferNames,
      .keys = kTransferKeys,
      .relations = kTransferRelations,
      .work = work_of,
      .volume = volume_of,
      .gradient = gradient_of,
  };
  return kFacts;
}

std::string_view name(TransferKind kind) { return kTransferNames[static_cast<std::size_t>(kind)].name; }

}  // namespace plumbline
