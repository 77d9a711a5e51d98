// The Hopper GEMM's tiles in fp16: those of bf16 (gemm_sm90.cu).
#include "kernels/gemm/gemm_sm90_launch.cuh"

namespace plumbline::sm90 {
namespace {

using device::sm90::GemmTile;
using device::sm90::Operands;

template <int... kTile>
using Fp16 = GemmTile<kTile..., Operands::fp16, 0>;

// as in ops/plan/kernel_menu.cpp
constexpr GemmEntry kFp16[] = {
    gemm_entry<Fp16<128, 256, 4, 1, 1>>(), gemm_entry<Fp16<128, 256, 4, 2, 1>>(), gemm_entry<Fp16<128, 224, 4, 1, 1>>(),
    gemm_entry<Fp16<256, 112, 4, 1, 1>>(), gemm_entry<Fp16<128, 192, 4, 1, 1>>(), gemm_entry<Fp16<128, 160, 5, 1, 1>>(),
    gemm_entry<Fp16<128, 128, 6, 1, 1>>(), gemm_entry<Fp16<128, 96, 7, 1, 1>>(),  gemm_entry<Fp16<64, 128, 8, 1, 1>>(),
    gemm_entry<Fp16<64, 96, 9, 1, 1>>(),   gemm_entry<Fp16<64, 64, 12, 1, 1>>(),  gemm_entry<Fp16<64, 32, 8, 1, 2>>(),
    gemm_entry<Fp16<64, 16, 10, 1, 2>>()};

}  // namespace

std::span<const GemmEntry> fp16_entries() { return kFp16; }

}  // namespace plumbline::sm90
