#include "ops/shape/embedding_backward.hpp"

#include <array>
#include <cmath>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kEmbeddingBackwardNames =
    std::to_array<OperatorName>({{"embedding_backward", 0, true, Pattern::stream}});
constexpr auto kEmbeddingBackwardKeys =
    std::to_array<Key>({key<&EmbeddingBackward::rows>("rows"), key<&EmbeddingBackward::cols>("cols"),
                        optional_count<&EmbeddingBackward::table>("table")});

/// Ids are int32. A row of the table that several ids name is read and written once.
Work work_of(const EmbeddingBackward& s) {
  const double n = d(s.rows) * d(s.cols), touched = kFloatBytes * rows_touched(s) * d(s.cols);
  Work w;
  w.math = s.dtype;
  w.fp32 = flop(n);
  w.read = storage(s.dtype, n) + byte(kIndexBytes * d(s.rows) + touched);
  w.write = byte(touched);
  return w;
}

Volume volume_of(const EmbeddingBackward& s) { return {2 * product_of({s.rows, s.cols}), 0}; }

}  // namespace

double rows_touched(const EmbeddingBackward& s) {
  const auto rows = static_cast<double>(s.rows), table = static_cast<double>(s.table);
  return s.table > 1 ? -table * std::expm1(rows * std::log1p(-1 / table)) : s.table == 1 ? 1 : rows;
}

const Facts<EmbeddingBackward>& EmbeddingBackward::facts() {
  static constexpr Facts<EmbeddingBackward> kFacts{
      .names = kEmbeddingBackwardNames,
      .keys = kEmbeddingBackwardKeys,
      .work = work_of,
      .volume = volume_of,
  };
  return kFacts;
}

}  // namespace plumbline
