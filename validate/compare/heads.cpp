#include "validate/compare/heads.hpp"

#include <variant>

#include "model/engine/rates.hpp"
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
  const Rowwise copy{RowwiseKind::copy, rows, product.n, false, wide, wide};
  if (widened) product.precision.input = product.precision.weight = product.precision.math = wide;
  if (widened || one_scale) product.block = 0;

  const Bytes set =
      work(Op(rounding)).bytes() + work(Op(product)).bytes() + (one_scale ? Bytes{} : work(Op(copy)).write);
  const bool held = machine.rates().still_held(set) >= 1;
  Seconds others;
  if (!widened) others += beside(rounding, held, machine, predictor, scratch);
  if (!one_scale) others += beside(copy, true, machine, predictor, scratch);
  return others + predict_as_timed(product, row.origin.protocol, machine, predictor, scratch);
}

}  // namespace plumbline
