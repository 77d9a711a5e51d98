// How FlashAttention-2 cuts attention whose keys lie one behind the other, as PyTorch's scaled_dot_product_attention ships it: tiles
// and warps of the forward and of the backward pass (csrc/flash_attn/src/flash_fwd_launch_template.h,
// flash_bwd_launch_template.h; H200, PyTorch 2.11: names, grids and registers of its launches agree).
#pragma once

#include "model/stacks/common/plan_attention.hpp"

namespace plumbline {

namespace flash_attention {

/// A tile of scores of the forward pass, and the warps that share its rows.
struct SecondTile {
  double rows = 0, keys = 0, warps = 4;
};
SecondTile second_tile(double width, bool causal, const Rates& rates);
/// 8.6 and 8.9: of 8.x those whose SMs have 100 KB.
bool is_sm8x(const Rates& rates);

/// The backward pass: rows of queries and keys of a step, and into how many parts its eight warps cut the rows of each kind of
/// product (scores, gradients of keys and values, gradients of queries); the others cut columns.
struct SecondBackwardTile {
  double queries = 0, keys = 0;
  double scores_rows = 4, keys_rows = 4, queries_rows = 4;
  bool holds_values = false;  ///< in registers
};
SecondBackwardTile second_backward_tile(double width, const Rates& rates);
inline constexpr double kSecondBackwardWarps = 8;

/// Widths that kernels are compiled for.
double second_width(std::int64_t width);

/// Each with a scheduler and a tensor unit of its own.
inline constexpr double kSmQuarters = 4;

/// What a step asks of an SM, in clocks.
struct SecondStep {
  double products = 0, softmax = 0, operands = 0;  ///< operands: reads and writes of shared memory
};
/// Clocks of a step where quarters of the SM have so many warps. Products and softmax of one warp follow each other, and hardly
/// overlap with another's (family.overlap, p of their p-norm); a warp alone waits for a share of its operands
/// (family.exposed), two or more fill each other's waits. (Counted by ncu on an H200, heads of 64 to 256: its tensor units are
/// busy 41 to 55 % of a step, and stalls of a fixed latency, of its own earlier instructions, are the most frequent.)
double second_step_clk(const SecondStep& step, double warps_of_quarter, const FamilyScalars& family);
/// Softmax of so many scores beside so many results: a maximum, then a multiply-add, an addition and half a conversion (at half the
/// rate) beside each exponential; results are rescaled with every block.
double softmax_clk(double scores, double results, const Rates& rates);
/// FLOP a clock that these kernels' products reach at most, whatever mma.sync does at more warps: the same steps take the same
/// clocks on an A100 (2048) and an H200 (2723), whose sums of both passes and whose single ones are met by this (training rows).
double second_flop_per_clk(DType type, const Rates& rates);
/// Clocks to mask so many scores: instructions, each of which takes a warp that waits for it two clocks of its quarter.
double second_mask_clk(double scores, const Rates& rates);

}  // namespace flash_attention

/// `family`: of the main launch; `merge`: of the merge where keys are cut, which they are where tiles of 64 queries do not fill
/// four fifths of two CTAs an SM.
AttentionChoice plan_second_prefill(const AttentionPrefill& shape, const Rates& rates, const FamilyScalars& family,
                                    const FamilyScalars& merge);

}  // namespace plumbline
