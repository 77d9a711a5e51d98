// Families of FlashAttention-2 where keys lie one behind the other, as every stack that runs it for its prompts declares them.
#pragma once

#include <array>

#include "model/stacks/provider.hpp"

namespace plumbline::flash_attention {

inline constexpr auto kSecondClasses =
    std::to_array<BandClass>({{Variant::usual, "flash_prefill", false}, {Variant::encoder, "flash_encoder", false}});
inline constexpr auto kSecondBackwardClasses = std::to_array<BandClass>({{Variant::usual, "flash_backward", false}});

inline constexpr FamilyDeclaration kSecondFamily{.name = "flash_second",
                                                 .op = "attention_prefill",
                                                 .required = false,
                                                 .stand_in = "library.flash_prefill_mma",
                                                 .carry = {.fixed_in_cycles = true},
                                                 .kind = "prompts",
                                                 .classes = kSecondClasses};
inline constexpr FamilyDeclaration kSecondBackwardFamily{.name = "flash_second_backward",
                                                         .op = "attention_backward",
                                                         .required = false,
                                                         .stand_in = "library.flash_second",
                                                         .carry = {.fixed_in_cycles = true},
                                                         .kind = "prompts",
                                                         .classes = kSecondBackwardClasses};

}  // namespace plumbline::flash_attention
