// Measured rows through the engine: each row's operator priced on its GPU at its clock.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/predict.hpp"
#include "validate/compare/compare.hpp"
#include "validate/record/measurement.hpp"

namespace plumbline {

struct PricingOptions {
  std::string gpu;                  ///< short name or file; empty: each row's own `gpu` column
  std::vector<Override> overrides;  ///< `--set`
  StackChoice stack = usual_stack(KernelSet::library);
  /// Attention rows that were measured on another stack are priced with its kernels (stack_of), not with `stack`'s.
  bool rows_attention = true;
  std::optional<ClockMode> clock;  ///< empty: each row's own, burst where it says nothing
  std::string calibration_file;    ///< instead of the GPU's own
  std::size_t threads = 2;
};

/// The clock a row is priced at: what is asked for, else its own, else burst (the contract's default for operators).
ClockMode clock_of(const Measurement& row, const std::optional<ClockMode>& asked);

/// Whose kernels a choice means: the section of calibrations, and which measurements of a recording. Throws BadInput for a
/// stack or an attention that is not known.
KernelSet kernels_of(const StackChoice& stack);

/// `stack` with the attention that a row was taken with, by the stack that its file names: FlashAttention's for vLLM,
/// PyTorch, InferSim and the project itself, cuDNN's where PyTorch's scaled_dot_product_attention chose; all-reduces
/// with the kernels of vLLM, SGLang or NCCL. SGLang's attention and experts are its own stack's, attention Triton's
/// where a row says so or SGLang's collector takes no other kernel on `gpu`. Else the choice's own.
StackChoice stack_of(StackChoice stack, const Measurement& row, const std::string& gpu = {});

/// The rows of `measured` that belong to `gpu` when one is named: rows without a `gpu` column always, others when the
/// column names the same descriptor. A `gpu` that is a file takes every row. `left_out` counts the others.
std::vector<Measurement> rows_of_gpu(std::vector<Measurement> measured, const std::string& gpu, long& left_out);

/// A row's operator as its table's collector called it. Experts: `vllm_fused_moe` is fused_experts(), whose caller has chosen
/// experts (collector/vllm/collect_moe.py). Rows that rounding a power law left over went to the experts liked most in the
/// tables of TensorRT-LLM 1.0 (power_law_logits_v3()); that vLLM 0.14's gave them to those with fewest is read off training
/// rows.
Op as_called(const Measurement& row);

/// A row's operator priced as it was timed: by its protocol, its caches and the plan that ran, where the row knows them
/// (since then the planner may have come to choose otherwise). `scratch` is the prediction of one plain execution,
/// whose band holds in proportion. Throws as `predict` does.
Seconds predict_as_measured(const Measurement& row, const Machine& machine, Predictor& predictor,
                            OpPrediction& scratch);

struct Priced {
  std::vector<Comparison> rows;          ///< one a measurement, in order
  std::vector<std::string> assumptions;  ///< about the machines, each once
};

/// Throws BadInput for an unknown GPU, and when a row names none and none is given. A row whose operator is not
/// modelled gets its reason in `error`.
Priced price(const std::vector<Measurement>& measured, const PricingOptions& options);

}  // namespace plumbline
