#include "ops/shape/embedding.hpp"

#include <algorithm>
#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"
#include "ops/shape/embedding_backward.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kEmbeddingNames = std::to_array<OperatorName>({{"embedding", 0, false, Pattern::stream}});
constexpr auto kEmbeddingKeys = std::to_array<Key>({key<&Embedding::rows>("rows"), key<&Embedding::cols>("cols")});

/// Token ids are int32 and all different (a repeated row would be read once).
Work work_of(const Embedding& s) {
  const double rows = d(s.rows), n = rows * d(s.cols);
  Work w;
  w.math = s.dtype;
  w.read = storage(s.dtype, n) + byte(kIndexBytes * rows);
  w.write = storage(s.dtype, n);
  return w;
}

Volume volume_of(const Embedding& s) { return {product_of({s.rows, s.cols}), 0}; }

/// Rows added to those of the table.
void gradient_of(const Embedding& s, NodeRole, Gradient& out) {
  out.add(GradientPart::whole, EmbeddingBackward{s.rows, s.cols, 0, s.dtype});
}

}  // namespace

const Facts<Embedding>& Embedding::facts() {
  static constexpr Facts<Embedding> kFacts{
      .names = kEmbeddingNames,
      .keys = kEmbeddingKeys,
      .work = work_of,
      .volume = volume_of,
      .gradient = gradient_of,
  };
  return kFacts;
}

}  // namespace plumbline
