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
/// `block` by a word. No word stands for another number, which stays as it is, for its relation to refuse.
constexpr Key scaling_key() {
  Key key;
  key.name = "scaling";
  key.type = KeyType::scaling;
  key.required = false;
  key.get = key.usual = [](const void* shape) {
    const std::int64_t block = static_cast<const QuantizeDynamic*>(shape)->block;
    for (std::size_t i = 0; i < kScalingBlocks.size(); ++i) {
      if (kScalingBlocks.at(i) == block) return static_cast<double>(i);
    }
    return -1.0;
  };
  key.set = [](void* shape, double value) {
    if (value >= 0) static_cast<QuantizeDynamic*>(shape)->block = kScalingBlocks.at(static_cast<std::size_t>(value));
  };
  return key;
}

constexpr auto kQuantizeDynamicKeys = std::to_array<Key>(
    {key<&QuantizeDynamic::rows>("rows"), key<&QuantizeDynamic::cols>("cols"),
     optional_count<&QuantizeDynamic::block>("block"), scaling_key(), optional_key<&QuantizeDynamic::output>("out")});
constexpr auto kQuantizeDynamicRelations = std::to_array<Relation<QuantizeDynamic>>(
    {{"key 'block': expected 0, 1 or 128",
      [](const QuantizeDynamic& s) { return s.block == 0 || s.block == 1 || s.block == 128; },
      [](QuantizeDynamic& s) { s.block = 128; }},
     {"key 'out': expected a type of 8 bits", [](const QuantizeDynamic& s) { return bits(s.output) == 8; },
      [](QuantizeDynamic& s) { s.output = DType::fp8; }}});

/// A maximum and a product of each value; a quotient for each scale.
Work work_of(const QuantizeDynamic& s) {
  const double values = d(s.rows) * d(s.cols);
  Work w;
  w.math = s.dtype;
  w.fp32 = flop(2 * values + s.scales());
  w.sfu = s.scales();
  w.read = storage(s.dtype, values);
  w.write = storage(s.output, values) + byte(kFloatBytes * s.scales());
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
