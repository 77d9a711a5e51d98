#include "ops/shape/quantize_dynamic.hpp"

#include <array>
#include <cmath>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kQuantizeDynamicNames =
    std::to_array<OperatorName>({{"quantize_dynamic", 0, true, Pattern::row_statistics}});
constexpr auto kQuantizeDynamicKeys =
    std::to_array<Key>({key<&QuantizeDynamic::rows>("rows"), key<&QuantizeDynamic::cols>("cols"),
                        optional_count<&QuantizeDynamic::block>("block")});
constexpr auto kQuantizeDynamicRelations = std::to_array<Relation<QuantizeDynamic>>(
    {{"key 'block': expected 0, 1 or 128",
      [](const QuantizeDynamic& s) { return s.block == 0 || s.block == 1 || s.block == 128; },
      [](QuantizeDynamic& s) { s.block = 128; }}});

/// A maximum and a product of each value; a quotient for each scale.
Work work_of(const QuantizeDynamic& s) {
  const double values = d(s.rows) * d(s.cols);
  Work w;
  w.math = s.dtype;
  w.fp32 = flop(2 * values + s.scales());
  w.sfu = s.scales();
  w.read = storage(s.dtype, values);
  w.write = storage(DType::fp8, values) + byte(kFloatBytes * s.scales());
  return w;
}

Volume volume_of(const QuantizeDynamic& s) { return {product_of({s.rows, s.cols}), 0}; }

}  // namespace

double QuantizeDynamic::scales() const {
  if (block == 0) return 1;
  return d(rows) * (block == 1 ? 1 : std::ceil(d(cols) / d(block)));
}

const Facts<QuantizeDynamic>& QuantizeDynamic::facts() {
  static constexpr Facts<QuantizeDynamic> kFacts{
      .names = kQuantizeDynamicNames,
      .keys = kQuantizeDynamicKeys,
      .relations = kQuantizeDynamicRelations,
      .work = work_of,
      .volume = volume_of,
  };
  return kFacts;
}

}  // namespace plumbline
