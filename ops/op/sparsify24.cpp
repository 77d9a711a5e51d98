#include "ops/shape/sparsify24.hpp"

#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kSparsify24Names = std::to_array<OperatorName>({{"sparsify24", 0, true, Pattern::none}});
constexpr auto kSparsify24Keys = std::to_array<Key>({key<&Sparsify24::rows>("rows"), key<&Sparsify24::cols>("cols")});
constexpr auto kSparsify24Relations = std::to_array<Relation<Sparsify24>>(
    {{"key 'rows': expected a multiple of 4 (two of each four weights are kept)",
      [](const Sparsify24& s) { return s.rows % 4 == 0; }, [](Sparsify24& s) { s.rows += 4 - s.rows % 4; }},
     {"key 'cols': expected a multiple of 4 (two of each four weights are kept)",
      [](const Sparsify24& s) { return s.cols % 4 == 0; }, [](Sparsify24& s) { s.cols += 4 - s.cols % 4; }}});

/// Which values are the larger ones is compared, and compared numbers are no FLOPs.
Work work_of(const Sparsify24& s) {
  const double values = d(s.rows) * d(s.cols), kept = values / 2;
  Work w;
  w.math = s.dtype;
  w.read = storage(s.dtype, values);
  w.write = 2 * (storage(s.dtype, kept) + byte(kept * 2 / 8)) + byte(values / 8);
  return w;
}

Volume volume_of(const Sparsify24& s) { return {product_of({s.rows, s.cols}), 0}; }

}  // namespace

const Facts<Sparsify24>& Sparsify24::facts() {
  static constexpr Facts<Sparsify24> kFacts{
      .names = kSparsify24Names,
      .keys = kSparsify24Keys,
      .relations = kSparsify24Relations,
      .work = work_of,
      .volume = volume_of,
  };
  return kFacts;
}

}  // namespace plumbline
