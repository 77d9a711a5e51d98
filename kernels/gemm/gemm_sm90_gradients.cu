// The Hopper GEMM's tiles for gradients' products, whose operands lie as the forward pass left them.
#include "kernels/gemm/gemm_sm90_launch.cuh"

namespace plumbline::sm90 {
namespace {

using device::sm90::GemmTile;
using device::sm90::Operands;

/// rows, cols, stages, cluster, CTAs an SM. dX = dY W: W as it lies, [K, N].
template <int... kTile>
using InputGradient = GemmTile<kTile..., Operands::bf16_cols_outside, 0>;
/// dW (+)= dY^T X, fp32: both with K, the tokens, as the outer index.
template <int... kTile>
using WeightGradient = GemmTile<kTile..., Operands::bf16_both_outside, 0, true>;

// as in ops/plan/kernel_menu.cpp
constexpr GemmEntry kInputGradient[] = {
    gemm_entry<InputGradient<128, 256, 4, 1, 1>>(), gemm_entry<InputGradient<128, 256, 4, 2, 1>>(),
    gemm_entry<InputGradient<128, 192, 4, 1, 1>>(), gemm_entry<InputGradient<128, 128, 6, 1, 1>>(),
    gemm_entry<InputGradient<64, 128, 8, 1, 1>>(),  gemm_entry<InputGradient<64, 64, 12, 1, 1>>()};
constexpr GemmEntry kWeightGradient[] = {
    gemm_entry<WeightGradient<128, 256, 4, 1, 1>>(), gemm_entry<WeightGradient<128, 256, 4, 2, 1>>(),
    gemm_entry<WeightGradient<128, 192, 4, 1, 1>>(), gemm_entry<WeightGradient<128, 128, 6, 1, 1>>(),
    gemm_entry<WeightGradient<64, 128, 8, 1, 1>>(),  gemm_entry<WeightGradient<64, 64, 12, 1, 1>>()};

}  // namespace

std::span<const GemmEntry> input_gradient_entries() { return kInputGradient; }
std::span<const GemmEntry> weight_gradient_entries() { return kWeightGradient; }

}  // namespace plumbline::sm90
