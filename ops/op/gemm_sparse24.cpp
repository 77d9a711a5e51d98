#include "ops/shape/gemm_sparse24.hpp"

#include <algorithm>
#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kGemmSparse24Names = std::to_array<OperatorName>({{"gemm_sparse24", 0, false, Pattern::none}});
constexpr auto kGemmSparse24Keys = std::to_array<Key>(
    {key<&GemmSparse24::m>("M"), key<&GemmSparse24::n>("N"), key<&GemmSparse24::k>("K"),
     optional_key<&GemmSparse24::bias>("bias"), precision_key<&GemmSparse24::precision, &Precision::input>("in"),
     precision_key<&GemmSparse24::precision, &Precision::weight>("weight"),
     precision_key<&GemmSparse24::precision, &Precision::output>("out"),
     precision_key<&GemmSparse24::precision, &Precision::math>("math")});

constexpr auto kGemmSparse24Relations = std::to_array<Relation<GemmSparse24>>(
    {{"key 'K': expected a multiple of 4 (two of each four weights are kept)",
      [](const GemmSparse24& s) { return s.k % 4 == 0; }, [](GemmSparse24& s) { s.k += 4 - s.k % 4; }}});

/// Useful work is that of the kept half of W: MNK FLOPs (the dense product has 2MNK). W: K/2 values a row and a 2-bit
/// position for each.
Work work_of(const GemmSparse24& s) {
  const double m = d(s.m), n = d(s.n), k = d(s.k), kept = n * k / 2;
  Work w;
  w.math = s.precision.math;
  w.tensor = flop(2 * m * kept);
  if (s.bias) w.fp32 = flop(m * n);
  w.read = storage(s.precision.input, m * k) + storage(s.precision.weight, kept) + byte(kept * 2 / 8);
  if (s.bias) w.read += storage(s.precision.output, n);
  w.write = storage(s.precision.output, m * n);
  return w;
}

Volume volume_of(const GemmSparse24& s) {
  return {std::max({product_of({s.m, s.n}), product_of({s.m, s.k}), product_of({s.n, s.k})}),
          product_of({s.m, s.n, s.k})};
}

/// dX[M,K] = dY[M,N] W with the copy that is compressed along N; dW[N,K] = dY^T X is that of a dense weight, as what is pruned
/// is found anew. (torchao's SemiSparseLinear: the gradient passes the pruning unchanged.)
void gradient_of(const GemmSparse24& s, NodeRole /*role*/, Gradient& out) {
  out.add(GradientPart::dx, GemmSparse24{s.m, s.k, s.n, s.precision});
  out.add(GradientPart::dw, Gemm{s.n, s.k, s.m, 1, s.precision, false, WeightLayout::km});
}

}  // namespace

const Facts<GemmSparse24>& GemmSparse24::facts() {
  static constexpr Facts<GemmSparse24> kFacts{
      .names = kGemmSparse24Names,
      .keys = kGemmSparse24Keys,
      .relations = kGemmSparse24Relations,
      .work = work_of,
      .volume = volume_of,
      .gradient = gradient_of,
  };
  return kFacts;
}

}  // namespace plumbline
