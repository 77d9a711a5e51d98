#include "ops/shape/collective.hpp"

#include <algorithm>
#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kCollectiveNames = std::to_array<OperatorName>(
    {{"all_reduce", static_cast<int>(CollectiveKind::all_reduce), false, Pattern::none},
     {"all_gather", static_cast<int>(CollectiveKind::all_gather), false, Pattern::none},
     {"reduce_scatter", static_cast<int>(CollectiveKind::reduce_scatter), false, Pattern::none},
     {"all_to_all", static_cast<int>(CollectiveKind::all_to_all), false, Pattern::none},
     {"broadcast", static_cast<int>(CollectiveKind::broadcast), false, Pattern::none}});
static_assert(in_order(kCollectiveNames));

constexpr auto kCollectiveKeys =
    std::to_array<Key>({key<&Collective::bytes>("bytes"), key<&Collective::gpus>("gpus"),
                        optional_key<&Collective::multicast>("multicast"), optional_key<&Collective::skew>("skew"),
                        optional_key<&Collective::stride>("stride")});

constexpr auto kCollectiveRelations = std::to_array<Relation<Collective>>(
    {{"key 'gpus': expected 2 or more", [](const Collective& s) { return s.gpus > 1; },
      [](Collective& s) { s.gpus = 2; }},
     {"key 'skew': expected with all_to_all alone",
      [](const Collective& s) { return s.skew == 0 || s.kind == CollectiveKind::all_to_all; },
      [](Collective& s) { s.skew = 0; }}});

/// Wire lower bounds a rank: all-reduce 2N(n-1)/n; all-gather, reduce-scatter, all-to-all N(n-1)/n with N the larger
/// buffer, times what the busiest rank moves of it (docs/sources.md: collectives); broadcast N, as every rank but the last
/// passes all of it on. Reductions: (n-1)/n adds an element.
Work work_of(const Collective& s) {
  const double n = d(s.gpus), bytes = d(s.bytes), others = (n - 1) / n;
  const double adds = bytes * 8 / bits(s.dtype) * others;
  Work w;
  w.math = s.dtype;
  w.read = byte(s.kind == CollectiveKind::all_gather ? bytes / n : bytes);
  w.write = byte(s.kind == CollectiveKind::reduce_scatter ? bytes / n : bytes);
  w.link = byte((s.kind == CollectiveKind::all_reduce ? 2 : 1) * bytes * others * (1 + s.skew / 100));
  if (s.kind == CollectiveKind::broadcast) w.link = byte(s.gpus > 1 ? bytes : 0);
  if (s.kind == CollectiveKind::all_reduce || s.kind == CollectiveKind::reduce_scatter) w.fp32 = flop(adds);
  return w;
}

Volume volume_of(const Collective& s) { return {d(s.bytes), 0}; }

/// The same exchange of gradients; of a broadcast their sum at its root, which no operator here is.
void gradient_of(const Collective& s, NodeRole, Gradient& out) {
  if (s.kind != CollectiveKind::broadcast) out.add(GradientPart::whole, s);
}

}  // namespace

const Facts<Collective>& Collective::facts() {
  static constexpr Facts<Collective> kFacts{
      .names = kCollectiveNames,
      .keys = kCollectiveKeys,
      .relations = kCollectiveRelations,
      .work = work_of,
      .volume = volume_of,
      .gradient = gradient_of,
  };
  return kFacts;
}

std::string_view name(CollectiveKind kind) { return kCollectiveNames[static_cast<std::size_t>(kind)].name; }

}  // namespace plumbline
