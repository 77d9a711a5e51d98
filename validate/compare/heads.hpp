// Published calls of latent attention's products of heads in 8 bits, whose timed region holds launches beside the
// product.
#pragma once

#include "validate/record/measurement.hpp"

namespace plumbline {

/// Whether the row's timed region holds the rounding of its rows (scope `quantize+bmm`).
bool rounds_heads(const Measurement& row);

/// What such a call takes, as the collectors make it. TensorRT-LLM rounds rows by scales of 128 and multiplies into
/// where heads of a token lie side by side; where tensor units have memory of their own weights were widened when they
/// were loaded, and nothing is rounded (collector/trtllm/collect_mla_bmm.py; a server's fp8_block_scaling_bmm_out(),
/// tensorrt_llm/_torch/modules/attention.py, would multiply into a tensor of its own and copy it). SGLang finds one
/// scale (per_tensor_quant_mla_fp8(), bmm_fp8()). `scratch` is left with the product.
Seconds predict_heads(const Measurement& row, const Machine& machine, Predictor& predictor, OpPrediction& scratch);

}  // namespace plumbline
