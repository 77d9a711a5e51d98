// Launches that round activations to 8 and 4 bits by scales that they find themselves, as serving stacks run them.
#pragma once

#include "model/stacks/provider.hpp"
#include "ops/shape/quantize_dynamic.hpp"

namespace plumbline {

/// Families of its launches. `scales`: what finds scales; per_cta is of a wave of CTAs, step_clk the clocks of an SM's issue
/// that a warp takes for 128 values and their scale. `tokens`: a scale a token; start_clk are the clocks of an SM that a CTA
/// takes beside its values, step_clk those of 4096 values, step_s the chain of a turn beside two ways to L2.
struct QuantizeFamilies {
  const FamilyScalars &scales, &tokens, &rows;
};

inline constexpr FamilyDeclaration kQuantizeFamily{
    .name = "quantize", .required = false, .stand_in = "library.rowwise", .stand_in_inherits = true};

inline constexpr auto kTokenClasses = std::to_array<BandClass>({{Variant::usual, "quantize_token"}});
inline constexpr FamilyDeclaration kTokenScalesFamily{.name = "quantize_token",
                                                      .required = false,
                                                      .stand_in = "library.rowwise",
                                                      .stand_in_inherits = true,
                                                      .carry = {.fixed_in_cycles = true},
                                                      .kind = "attention",
                                                      .classes = kTokenClasses};

/// One pass that rounds each 128 columns by a scale of their own. Bytes of DRAM are the caller's to say.
Demand round_blocks(double rows, double cols, DType type, const FamilyScalars& scales, const Rates& rates);

/// One scale for all: a clear, a pass for the largest value, a pass that rounds; else one pass. `held`: share of what is read
/// first that L2 holds.
void answer_quantize(const QuantizeDynamic& shape, double held, const QuantizeFamilies& families,
                     const Question& question, Answer& answer);

/// Rows of nvfp4: a scale for each 16 values, found beside one that the model file has for all of them, in one launch.
/// (TensorRT-LLM: fp4_quantize(), NVFP4LinearMethod's input_scale.)
void answer_round_to_fp4(std::int64_t rows, std::int64_t cols, DType from, double held, const FamilyScalars& rowwise,
                         const Question& question, Answer& answer);

}  // namespace plumbline
