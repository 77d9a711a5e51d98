#include "ops/shape/grouped_gemm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kGroupedGemmNames = std::to_array<OperatorName>({{"grouped_gemm", 0, false, Pattern::none}});
constexpr auto kGroupedGemmKeys = std::to_array<Key>(
    {key<&GroupedGemm::experts>("E"), key<&GroupedGemm::topk>("topk"), key<&GroupedGemm::tokens>("T"),
     key<&GroupedGemm::n>("N"), key<&GroupedGemm::k>("K"), optional_key<&GroupedGemm::skew>("skew"),
     optional_key<&GroupedGemm::wgrad>("wgrad"), optional_key<&GroupedGemm::accumulate>("accumulate"),
     optional_count<&GroupedGemm::block>("block"), precision_key<&GroupedGemm::precision, &Precision::input>("in"),
     precision_key<&GroupedGemm::precision, &Precision::weight>("weight"),
     precision_key<&GroupedGemm::precision, &Precision::output>("out"),
     precision_key<&GroupedGemm::precision, &Precision::math>("math")});

constexpr auto kGroupedGemmRelations = std::to_array<Relation<GroupedGemm>>(
    {{"key 'topk': expected at most E", [](const GroupedGemm& s) { return s.topk <= s.experts; },
      [](GroupedGemm& s) { s.topk = s.experts; }},
     {"key 'accumulate': expected with wgrad alone", [](const GroupedGemm& s) { return s.wgrad || !s.accumulate; },
      [](GroupedGemm& s) { s.accumulate = false; }},
     {"key 'block': expected 0, or 128 of operands that are multiplied in fp8",
      [](const GroupedGemm& s) { return s.block == 0 || (s.block == 128 && s.precision.math == DType::fp8); },
      [](GroupedGemm& s) { s.block = 0; }}});

/// Every token's row of x is read once however many experts see it; the weights of the experts that uniform routing is
/// expected to touch; one output row for each (token, expert). Skew moves rows between experts, not the totals. The
/// routing ids belong to the permutation. Gradients of weights read both sides' rows and write the touched experts'.
Work work_of(const GroupedGemm& s) {
  const double n = d(s.n), k = d(s.k), tokens = d(s.tokens), routed = tokens * d(s.topk);
  Work w;
  w.math = s.precision.math;
  w.tensor = flop(2 * routed * n * k);
  if (s.wgrad) {
    const double elements = experts_touched(d(s.experts), d(s.topk), tokens) * n * k;
    w.read = storage(s.precision.input, routed * n) + storage(s.precision.weight, tokens * k);
    w.write = storage(s.precision.output, elements);
    if (s.accumulate) {
      w.fp32 = flop(elements);
      w.read += w.write;
    }
    return w;
  }
  w.read = storage(s.precision.input, tokens * k) +
           storage(s.precision.weight, experts_touched(d(s.experts), d(s.topk), tokens) * n * k);
  w.write = storage(s.precision.output, routed * n);
  return w;
}

Volume volume_of(const GroupedGemm& s) {
  return {std::max(product_of({s.tokens, s.topk, std::max(s.n, s.k)}), product_of({s.experts, s.n, s.k})),
          product_of({s.tokens, s.topk, s.n, s.k})};
}

/// As for Gemm: two products of the forward one's FLOPs. What comes back differs in each routed row, so that rows are tokens
/// of their own; where they are few that form expects too few experts to be touched, and the forward one stays.
void gradient_of(const GroupedGemm& s, NodeRole, Gradient& out) {
  constexpr std::int64_t kRowsForAll = 4;  // an expert
  GroupedGemm dx = s;
  std::swap(dx.n, dx.k);
  if (s.tokens * s.topk >= kRowsForAll * s.experts) {
    dx.tokens *= dx.topk;
    dx.topk = 1;
  }
  out.add(GradientPart::dx, dx);
  GroupedGemm dw = s;
  dw.wgrad = true;
  out.add(GradientPart::dw, dw);
}

}  // namespace

const Facts<GroupedGemm>& GroupedGemm::facts() {
  static constexpr Facts<GroupedGemm> kFacts{
      .names = kGroupedGemmNames,
      .keys = kGroupedGemmKeys,
      .relations = kGroupedGemmRelations,
      .work = work_of,
      .volume = volume_of,
      .gradient = gradient_of,
  };
  return kFacts;
}

double experts_touched(double experts, double topk, double tokens) {
  if (topk >= experts) return tokens > 0 ? experts : 0;
  return -experts * std::expm1(tokens * std::log1p(-topk / experts));
}

}  // namespace plumbline
