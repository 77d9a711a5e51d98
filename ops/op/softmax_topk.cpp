#include "ops/shape/softmax_topk.hpp"

#include "ops/op/selection.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kSoftmaxTopkNames = std::to_array<OperatorName>({{"softmax_topk", 0, true, Pattern::select_scan}});

/// max; x - max, exp, sum; a comparison with the threshold, an element. A row: a reciprocal, and k products with it.
Work work_of(const SoftmaxTopK& s) {
  Work w = selection::moved(s);
  const double rows = d(s.rows), n = rows * d(s.cols);
  w.fp32 = flop(4 * n + rows * d(s.k));
  w.sfu = n + rows;
  return w;
}

}  // namespace

const Facts<SoftmaxTopK>& SoftmaxTopK::facts() {
  static constexpr Facts<SoftmaxTopK> kFacts{
      .names = kSoftmaxTopkNames,
      .keys = selection::kKeys<SoftmaxTopK>,
      .relations = selection::kRelations<SoftmaxTopK>,
      .work = work_of,
      .volume = selection::volume_of<SoftmaxTopK>,
  };
  return kFacts;
}

}  // namespace plumbline
