// Families of PyTorch's memory-efficient attention, as every stack that runs it declares them.
#pragma once

#include <array>

#include "model/stacks/provider.hpp"

namespace plumbline::efficient_attention {

inline constexpr auto kForwardClasses = std::to_array<BandClass>({{Variant::usual, "efficient_prefill"}});
inline constexpr auto kBackwardClasses = std::to_array<BandClass>({{Variant::usual, "efficient_backward"}});

inline constexpr FamilyDeclaration kForwardFamily{.name = "efficient",
                                                  .op = "attention_prefill",
                                                  .required = false,
                                                  .carry = {.fixed_in_cycles = true},
                                                  .kind = "prompts",
                                                  .classes = kForwardClasses};
inline constexpr FamilyDeclaration kBackwardFamily{.name = "efficient_backward",
                                                   .op = "attention_backward",
                                                   .required = false,
                                                   .carry = {.fixed_in_cycles = true},
                                                   .kind = "prompts",
                                                   .classes = kBackwardClasses};
/// Gradients of fp32: their kernels preload nothing, and keep the sums of dK and dV of any width in memory.
inline constexpr FamilyDeclaration kBackward32Family{.name = "efficient_backward_fp32",
                                                     .op = "attention_backward",
                                                     .required = false,
                                                     .stand_in = "library.efficient_backward",
                                                     .carry = {.fixed_in_cycles = true},
                                                     .kind = "prompts",
                                                     .classes = kBackwardClasses};

}  // namespace plumbline::efficient_attention
