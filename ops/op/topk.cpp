#include "ops/shape/topk.hpp"

#include "ops/op/selection.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kTopkNames = std::to_array<OperatorName>({{"topk", 0, false, Pattern::select_scan}});

/// One comparison an element, with the threshold that separates the k largest: what any selection must do at least.
/// The comparisons that find the threshold depend on the algorithm and the data.
Work work_of(const TopK& s) {
  Work w = selection::moved(s);
  w.fp32 = flop(d(s.rows) * d(s.cols));
  return w;
}

}  // namespace

const Facts<TopK>& TopK::facts() {
  static constexpr Facts<TopK> kFacts{
      .names = kTopkNames,
      .keys = selection::kKeys<TopK>,
      .relations = selection::kRelations<TopK>,
      .work = work_of,
      .volume = selection::volume_of<TopK>,
  };
  return kFacts;
}

}  // namespace plumbline
