#include "ops/shape/gemm_dynamic.hpp"

#include <algorithm>
#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kGemmDynamicNames = std::to_array<OperatorName>({{"gemm_dynamic", 0, true, Pattern::none}});
constexpr auto kGemmDynamicKeys = std::to_array<Key>(
    {key<&GemmDynamic::m>("M"), key<&GemmDynamic::n>("N"), key<&GemmDynamic::k>("K"),
     optional_count<&GemmDynamic::block>("block"), precision_key<&GemmDynamic::precision, &Precision::input>("in"),
     precision_key<&GemmDynamic::precision, &Precision::weight>("weight"),
     precision_key<&GemmDynamic::precision, &Precision::output>("out"),
     precision_key<&GemmDynamic::precision, &Precision::math>("math")});
constexpr auto kGemmDynamicRelations = std::to_array<Relation<GemmDynamic>>(
    {{"key 'block': expected 0, 1 or 128",
      [](const GemmDynamic& s) { return s.block == 0 || s.block == 1 || s.block == 128; },
      [](GemmDynamic& s) { s.block = 128; }}});

/// The product, and a maximum and a product of each value of x.
Work work_of(const GemmDynamic& s) {
  const double m = d(s.m), n = d(s.n), k = d(s.k);
  Work w;
  w.math = s.precision.math;
  w.tensor = flop(2 * m * n * k);
  w.fp32 = flop(2 * m * k);
  w.read = storage(s.precision.output, m * k) + storage(s.precision.weight, n * k);
  w.write = storage(s.precision.output, m * n);
  return w;
}

Volume volume_of(const GemmDynamic& s) {
  return {std::max({product_of({s.m, s.n}), product_of({s.m, s.k}), product_of({s.n, s.k})}),
          product_of({s.m, s.n, s.k})};
}

}  // namespace

const Facts<GemmDynamic>& GemmDynamic::facts() {
  static constexpr Facts<GemmDynamic> kFacts{
      .names = kGemmDynamicNames,
      .keys = kGemmDynamicKeys,
      .relations = kGemmDynamicRelations,
      .work = work_of,
      .volume = volume_of,
  };
  return kFacts;
}

}  // namespace plumbline
