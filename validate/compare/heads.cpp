#include "validate/compare/heads.hpp"

#include <cmath>
#include <variant>

#include "model/engine/rates.hpp"
#include "ops/as_double.hpp"
#include "ops/facts/work.hpp"
#include "validate/record/published.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kOneScale = "sglang";

/// A launch beside the product, whose operands may lie in L2.
Seconds beside(const Op& op, bool held, const Machine& machine, Predictor& predictor, OpPrediction& scratch) {
  predictor.predict(op, machine, scratch, {.warm = held});
  return scratch.time;
}

/// Rows that are rounded go from places beside each other in a token to those beside each other in a head: where one of
/// the `blocks` of 128 values lies takes a warp two divisions of 64-bit numbers more (scale_1x128_reshape_kernel(),
/// three, beside scale_1x128_kernel()'s one). Clocks of an SM's issue by training rows of the H200 and the H100.
Seconds to_heads(double blocks, const Machine& machine) {
  constexpr double kDivisionsClk = 20;
  const Rates& m = machine.rates();
  return kDivisionsClk * blocks / m.sm_count / m.gpu.boost_clock;
}

}  // namespace

bool rounds_heads(const Measurement& row) {
  const auto* const product = std::get_if<Gemm>(&row.what.op);
  return product != nullptr && product->batch > 1 && product->block > 1 && row.origin.scope == kRoundedHeads;
}

Seconds predict_heads(const Measurement& row, const Machine& machine, Predictor& predictor, OpPrediction& scratch) {
  Gemm product = std::get<Gemm>(row.what.op);
  const DType wide = product.precision.output;
  const bool one_scale = row.origin.stack.rfind(kOneScale, 0) == 0;
  const bool widened = !one_scale && machine.rates().path.kind == TensorPath::Kind::tcgen05;
  const std::int64_t rows = product.batch * product.m;
  const QuantizeDynamic rounding{rows, product.k, one_scale ? 0 : product.block, wide};
  if (widened) product.precision.input = product.precision.weight = product.precision.math = wide;
  if (widened || one_scale) product.block = 0;

  const Bytes set = work(Op(rounding)).bytes() + work(Op(product)).bytes();
  const bool held = machine.rates().still_held(set) >= 1;
  Seconds others;
  if (!widened) others += beside(rounding, held, machine, predictor, scratch);
  if (!widened && !one_scale) others += to_heads(d(rows) * std::ceil(d(product.k) / d(rounding.block)), machine);
  return others + predict_as_timed(product, row.origin.protocol, machine, predictor, scratch);
}

}  // namespace plumbline
