#include "ops/shape/rope.hpp"

#include <algorithm>
#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/attention_math.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kRopeNames = std::to_array<OperatorName>({{"rope", 0, false, Pattern::stream}});
constexpr auto kRopeKeys =
    std::to_array<Key>({key<&Rope::tokens>("tokens"), key<&Rope::heads>("heads"), key<&Rope::head_dim>("D")});

constexpr auto kRopeRelations =
    std::to_array<Relation<Rope>>({{"key 'D': expected an even number",
                                    [](const Rope& s) { return s.head_dim % 2 == 0; }, [](Rope& s) { ++s.head_dim; }}});

/// Positions are int32, one a token.
Work work_of(const Rope& s) {
  const double tokens = d(s.tokens), dim = d(s.head_dim), elements = tokens * d(s.heads) * dim;
  Work w;
  w.math = s.dtype;
  w.read = storage(s.dtype, elements) + byte(kIndexBytes * tokens);
  w.write = storage(s.dtype, elements);
  add_rotation(w, elements, tokens, dim);
  return w;
}

Volume volume_of(const Rope& s) { return {product_of({s.tokens, s.heads, s.head_dim}), 0}; }

/// The opposite rotation.
void gradient_of(const Rope& s, NodeRole, Gradient& out) { out.add(GradientPart::whole, s); }

}  // namespace

const Facts<Rope>& Rope::facts() {
  static constexpr Facts<Rope> kFacts{
      .names = kRopeNames,
      .keys = kRopeKeys,
      .relations = kRopeRelations,
      .work = work_of,
      .volume = volume_of,
      .gradient = gradient_of,
  };
  return kFacts;
}

}  // namespace plumbline
