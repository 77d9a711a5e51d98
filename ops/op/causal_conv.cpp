#include "ops/shape/causal_conv.hpp"

#include <algorithm>
#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kCausalConvNames = std::to_array<OperatorName>({{"causal_conv", 0, true, Pattern::none}});
constexpr auto kCausalConvKeys =
    std::to_array<Key>({key<&CausalConv::batch>("B"), key<&CausalConv::seq>("S"),
                        key<&CausalConv::channels>("channels"), key<&CausalConv::width>("width")});

/// Each sequence is preceded by its last width - 1 inputs (the cache), so each output takes `width` multiply-adds; the
/// new last width - 1 inputs are written back.
Work work_of(const CausalConv& s) {
  const double lanes = d(s.batch) * d(s.channels), seq = d(s.seq), width = d(s.width);
  Work w;
  w.math = s.dtype;
  w.fp32 = flop(2 * width * lanes * seq);
  w.read = storage(s.dtype, lanes * (seq + width - 1) + d(s.channels) * width);
  w.write = storage(s.dtype, lanes * (seq + width - 1));
  return w;
}

Volume volume_of(const CausalConv& s) {
  return {product_of({s.batch, s.seq + s.width, s.channels}), product_of({s.batch, s.seq, s.channels, s.width})};
}

/// Input and weight gradients.
void gradient_of(const CausalConv& s, NodeRole, Gradient& out) {
  out.add(GradientPart::dx, s);
  out.add(GradientPart::dw, s);
}

}  // namespace

const Facts<CausalConv>& CausalConv::facts() {
  static constexpr Facts<CausalConv> kFacts{
      .names = kCausalConvNames,
      .keys = kCausalConvKeys,
      .work = work_of,
      .volume = volume_of,
      .gradient = gradient_of,
  };
  return kFacts;
}

}  // namespace plumbline
