#include "ops/shape/gemm.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/facts/facts.hpp"
#include "ops/facts/precision.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kGemmNames = std::to_array<OperatorName>({{"gemm", 0, false, Pattern::none}});
constexpr auto kGemmKeys =
    std::to_array<Key>({key<&Gemm::m>("M"), key<&Gemm::n>("N"), key<&Gemm::k>("K"), optional_key<&Gemm::batch>("batch"),
                        optional_key<&Gemm::bias>("bias"), optional_key<&Gemm::layout>("layout"),
                        optional_key<&Gemm::accumulate>("accumulate"), optional_count<&Gemm::block>("block"),
                        precision_key<&Gemm::precision, &Precision::input>("in"),
                        precision_key<&Gemm::precision, &Precision::weight>("weight"),
                        precision_key<&Gemm::precision, &Precision::output>("out"),
                        precision_key<&Gemm::precision, &Precision::math>("math")});
constexpr auto kGemmRelations = std::to_array<Relation<Gemm>>(
    {{"key 'block': expected 0, 1, 32 or 128",
      [](const Gemm& s) { return s.block == 0 || s.block == 1 || s.block == kMxBlock || s.block == 128; },
      [](Gemm& s) { s.block = 128; }},
     {"key 'block': operands that are multiplied in fp8 have scales; expected 0",
      [](const Gemm& s) { return s.block == 0 || s.precision.math == DType::fp8; }, [](Gemm& s) { s.block = 0; }}});

/// 2MNK; a bias has one value a column, in the output's type, and costs one add an output. Scales are counted where 32 values share
/// one (a byte each).
Work work_of(const Gemm& s) {
  const double m = d(s.m), n = d(s.n), k = d(s.k), batch = d(s.batch);
  Work w;
  w.math = s.precision.math;
  w.tensor = flop(2 * m * n * k * batch);
  if (s.bias) w.fp32 = flop(m * n * batch);
  w.read = storage(s.precision.input, m * k * batch) + storage(s.precision.weight, n * k * batch);
  if (s.block == kMxBlock) {  // weights of 4 bits have theirs in their width
    const double rows = m + (s.precision.weight == DType::fp8 ? n : 0);
    w.read += storage(DType::fp8, rows * std::ceil(k / kMxBlock) * batch);
  }
  if (s.bias) w.read += storage(s.precision.output, n * batch);
  w.write = storage(s.precision.output, m * n * batch);
  if (s.accumulate) {
    w.fp32 += flop(m * n * batch);
    w.read += w.write;
  }
  return w;
}

Volume volume_of(const Gemm& s) {
  return {std::max({product_of({s.batch, s.m, s.n}), product_of({s.batch, s.m, s.k}), product_of({s.batch, s.n, s.k})}),
          product_of({s.batch, s.m, s.n, s.k})};
}

/// Operands lie as the forward pass left them: a product with W where that was one with W^T.
/// dX[M,K] = dY[M,N] W[N,K] and dW[N,K] = dY^T[N,M] X[M,K]: together twice the forward FLOPs. For the batched products
/// of eager attention these are the gradients of both activations. The bias's gradient, a column sum of dY, is a matter
/// of who runs it (Step::add_gradient).
void gradient_of(const Gemm& s, NodeRole role, Gradient& out) {
  // operands of a byte are multiplied as [N,K] alone: whoever quantizes them writes the transpose too
  const bool narrow = bits(s.precision.math) < 16;
  const WeightLayout kn = narrow ? WeightLayout::nk : WeightLayout::kn,
                     km = narrow ? WeightLayout::nk : WeightLayout::km;
  const WeightLayout other = s.layout == WeightLayout::nk ? kn : WeightLayout::nk;
  const bool scores = role == NodeRole::scores, context = role == NodeRole::context;
  out.add(scores    ? GradientPart::dq
          : context ? GradientPart::dp
                    : GradientPart::dx,
          Gemm{s.m, s.k, s.n, s.batch, s.precision, false, other, false, s.block});
  out.add(scores    ? GradientPart::dk
          : context ? GradientPart::dv
                    : GradientPart::dw,
          Gemm{s.n, s.k, s.m, s.batch, s.precision, false, km, false, s.block});
}

}  // namespace

const Facts<Gemm>& Gemm::facts() {
  static constexpr Facts<Gemm> kFacts{
      .names = kGemmNames,
      .keys = kGemmKeys,
      .relations = kGemmRelations,
      .work = work_of,
      .volume = volume_of,
      .gradient = gradient_of,
  };
  return kFacts;
}

}  // namespace plumbline
