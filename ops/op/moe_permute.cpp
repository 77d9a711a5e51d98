#include "ops/shape/moe_permute.hpp"

#include <algorithm>
#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kMoePermuteNames = std::to_array<OperatorName>({{"moe_permute", 0, true, Pattern::none}});
constexpr auto kMoePermuteKeys =
    std::to_array<Key>({key<&MoePermute::tokens>("tokens"), key<&MoePermute::topk>("topk"),
                        key<&MoePermute::cols>("cols"), optional_key<&MoePermute::combine>("combine")});

/// One int32 position a routed row; combine also reads an fp32 routing weight and multiply-adds with it.
Work work_of(const MoePermute& s) {
  const double tokens = d(s.tokens), routed = tokens * d(s.topk), cols = d(s.cols);
  Work w;
  w.math = s.dtype;
  const Bytes few = storage(s.dtype, tokens * cols), many = storage(s.dtype, routed * cols);
  w.read = (s.combine ? many + byte(kFloatBytes * routed) : few) + byte(kIndexBytes * routed);
  w.write = s.combine ? few : many;
  if (s.combine) w.fp32 = flop(2 * routed * cols);
  return w;
}

Volume volume_of(const MoePermute& s) { return {product_of({s.tokens, s.topk, s.cols}), 0}; }

/// Dispatch is undone by combine, and the other way round.
void gradient_of(const MoePermute& s, NodeRole, Gradient& out) {
  MoePermute back = s;
  back.combine = !s.combine;
  out.add(GradientPart::whole, back);
}

}  // namespace

const Facts<MoePermute>& MoePermute::facts() {
  static constexpr Facts<MoePermute> kFacts{
      .names = kMoePermuteNames,
      .keys = kMoePermuteKeys,
      .work = work_of,
      .volume = volume_of,
      .gradient = gradient_of,
  };
  return kFacts;
}

}  // namespace plumbline
