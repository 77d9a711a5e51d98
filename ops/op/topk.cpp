#include "ops/op/topk.hpp"

#include <algorithm>
#include <array>

#include "ops/op/counting.hpp"
#include "ops/op/facts.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kNames = std::to_array<OperatorName>({{"topk", 0, false, Pattern::select_scan}});
constexpr auto kKeys = std::to_array<Key>({key<&TopK::rows>("rows"), key<&TopK::cols>("cols"), key<&TopK::k>("k")});

constexpr auto kRelations = std::to_array<Relation<TopK>>(
    {{"key 'k': expected at most cols", [](const TopK& s) { return s.k <= s.cols; }, [](TopK& s) { s.k = s.cols; }}});

/// One comparison an element, with the threshold that separates the k largest: what any selection must do at least.
/// The comparisons that find the threshold depend on the algorithm and the data.
Work work_of(const TopK& s) {
  const double rows = d(s.rows), n = rows * d(s.cols);
  Work w;
  w.math = s.dtype;
  w.fp32 = flop(n);
  w.read = storage(s.dtype, n);
  w.write = storage(s.dtype, rows * d(s.k)) + byte(kIndexBytes * rows * d(s.k));
  return w;
}

Volume volume_of(const TopK& s) { return {product_of({s.rows, s.cols}), 0}; }

}  // namespace

const Facts<TopK>& TopK::facts() {
  static constexpr Facts<TopK> kFacts{
      .names = kNames,
      .keys = kKeys,
      .relations = kRelations,
      .work = work_of,
      .volume = volume_of,
  };
  return kFacts;
}

}  // namespace plumbline
