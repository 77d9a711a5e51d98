#include "ops/op/softmax_topk.hpp"

#include <algorithm>
#include <array>

#include "ops/op/counting.hpp"
#include "ops/op/facts.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kNames = std::to_array<OperatorName>({{"softmax_topk", 0, true, Pattern::select_scan}});
constexpr auto kKeys =
    std::to_array<Key>({key<&SoftmaxTopK::rows>("rows"), key<&SoftmaxTopK::cols>("cols"), key<&SoftmaxTopK::k>("k")});

constexpr auto kRelations = std::to_array<Relation<SoftmaxTopK>>(
    {{"key 'k': expected at most cols", [](const SoftmaxTopK& s) { return s.k <= s.cols; },
      [](SoftmaxTopK& s) { s.k = s.cols; }}});

/// max; x - max, exp, sum; a comparison with the threshold, an element. A row: a reciprocal, and k products with it.
Work work_of(const SoftmaxTopK& s) {
  const double rows = d(s.rows), n = rows * d(s.cols), found = rows * d(s.k);
  Work w;
  w.math = s.dtype;
  w.fp32 = flop(4 * n + found);
  w.sfu = n + rows;
  w.read = storage(s.dtype, n);
  w.write = storage(s.dtype, found) + byte(kIndexBytes * found);
  return w;
}

Volume volume_of(const SoftmaxTopK& s) { return {product_of({s.rows, s.cols}), 0}; }

}  // namespace

const Facts<SoftmaxTopK>& SoftmaxTopK::facts() {
  static constexpr Facts<SoftmaxTopK> kFacts{
      .names = kNames,
      .keys = kKeys,
      .relations = kRelations,
      .work = work_of,
      .volume = volume_of,
  };
  return kFacts;
}

}  // namespace plumbline
