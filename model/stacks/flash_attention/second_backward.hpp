// What a step of FlashAttention-2's backward pass takes.
#pragma once

#include "model/stacks/flash_attention/second.hpp"

namespace plumbline::flash_attention {

/// Clocks of a step whose units `demand` counts: two warps a quarter go through five products and the softmax, and wait for what
/// L2 takes to add dQ's fp32 sums.
double second_backward_clk(const SecondBackwardTile& tile, const Demand& demand, double qk_dim, double v_dim,
                           DType type, const Rates& rates, const FamilyScalars& family);

}  // namespace plumbline::flash_attention
