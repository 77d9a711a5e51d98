#include <string>

#include "arch/error.hpp"
#include "ops/resolve/resolve.hpp"

namespace plumbline::lowering {
namespace {

bool wide(DType type) { return bits(type) >= 16; }

/// Tensor-core format for activations of type `input`: 4-bit floats have their own, wide types multiply as they are.
DType math_of(DType input) {
  const bool four_bit = input == DType::nvfp4 || input == DType::mxfp4 || input == DType::fp4;
  return four_bit ? DType::fp4 : input;
}

/// Weights of type `weight` as the file stores them. Weights left wide are multiplied in the wide type even when the
/// file quantizes activations elsewhere.
Precision from_file(DType weight, DType activation, DType base) {
  if (wide(weight)) return {base, base, base, base};
  const DType input = wide(activation) ? base : activation;
  return {input, weight, base, math_of(input)};
}

/// Only fp8 files were trained in what they store; the others are made after training.
DType trained_as(DType weight, DType base) { return weight == DType::fp8 ? weight : base; }

}  // namespace

Types types_of(const Llm& llm, const Workload& workload) {
  const bool train = workload.phase == Phase::train;
  const Quantization& q = llm.quantization;
  Types t;
  if (workload.precision_given) {
    const Precision& p = workload.precision;
    if (train && bits(p.weight) < bits(p.input)) {
      throw BadInput("dtype " + std::string(name(p)) +
                     ": expected bf16, fp16, fp32, fp8 or nvfp4 in training (weight-only formats don't train)");
    }
    t.base = p.output;
    t.linear = t.experts = p;
  } else {
    // Files stored in fp32 (GPT-2, BERT, T5) run in bf16 today; only fp16 says something about the run.
    t.base = llm.dtype == DType::fp16 ? DType::fp16 : DType::bf16;
    const DType linear = train ? trained_as(q.linear, t.base) : q.linear;
    const DType experts = train ? trained_as(q.experts, t.base) : q.experts;
    t.linear = from_file(linear, q.activation, t.base);
    t.experts = from_file(experts, q.activation, t.base);
    if (!train) t.block = q.block;  // how training scales is its recipe's to say
  }
  t.plain = {t.base, t.base, t.base, t.base};
  t.kv = wide(q.kv) || train ? t.base : q.kv;
  if (workload.kv_dtype_given && !train) t.kv = workload.kv_dtype;
  return t;
}

}  // namespace plumbline::lowering
