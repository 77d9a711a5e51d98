// The Hopper GEMM's tiles, and which plan means which. gemm_sm90.cuh describes the design; docs/lab/gemm_sm90.md has
// the variants that were tried, with figures.
#include "kernels/gemm/gemm_sm90.hpp"

#include <span>

#include "kernels/gemm/gemm_sm90_launch.cuh"
#include "ops/plan/kernel_menu.hpp"

namespace plumbline {
namespace {

using device::sm90::GemmTile;
using device::sm90::Operands;
using sm90::gemm_entry;
using sm90::GemmCut;
using sm90::GemmEntry;

/// rows, cols, stages, cluster, CTAs an SM
template <int... kTile>
using Bf16 = GemmTile<kTile..., Operands::bf16, 0>;
/// An fp8 sum is promoted every 8 steps: 1024 elements of K.
template <int... kTile>
using Fp8 = GemmTile<kTile..., Operands::fp8, 8>;

// as in ops/plan/kernel_menu.cpp
constexpr GemmEntry kBf16[] = {
    gemm_entry<Bf16<128, 256, 4, 1, 1>>(), gemm_entry<Bf16<128, 256, 4, 2, 1>>(), gemm_entry<Bf16<128, 224, 4, 1, 1>>(),
    gemm_entry<Bf16<256, 112, 4, 1, 1>>(), gemm_entry<Bf16<128, 192, 4, 1, 1>>(), gemm_entry<Bf16<128, 160, 5, 1, 1>>(),
    gemm_entry<Bf16<128, 128, 6, 1, 1>>(), gemm_entry<Bf16<128, 96, 7, 1, 1>>(),  gemm_entry<Bf16<64, 128, 8, 1, 1>>(),
    gemm_entry<Bf16<64, 96, 9, 1, 1>>(),   gemm_entry<Bf16<64, 64, 12, 1, 1>>(),  gemm_entry<Bf16<64, 32, 8, 1, 2>>(),
    gemm_entry<Bf16<64, 16, 10, 1, 2>>()};
constexpr GemmEntry kFp8[] = {gemm_entry<Fp8<128, 192, 4, 1, 1>>(), gemm_entry<Fp8<128, 192, 4, 2, 1>>(),
                              gemm_entry<Fp8<128, 160, 5, 1, 1>>(), gemm_entry<Fp8<128, 128, 6, 1, 1>>(),
                              gemm_entry<Fp8<128, 96, 7, 1, 1>>(),  gemm_entry<Fp8<64, 128, 8, 1, 1>>(),
                              gemm_entry<Fp8<64, 96, 9, 1, 1>>(),   gemm_entry<Fp8<64, 64, 12, 1, 1>>(),
                              gemm_entry<Fp8<64, 32, 8, 1, 2>>(),   gemm_entry<Fp8<64, 16, 10, 1, 2>>()};

/// A gradient of weights: its left operand lies as [K, M].
bool adds_floats(const Gemm& shape) { return shape.precision.output == DType::fp32; }

std::span<const GemmEntry> entries(const Gemm& shape) {
  if (adds_floats(shape)) return sm90::weight_gradient_entries();
  if (shape.layout == WeightLayout::kn) return sm90::input_gradient_entries();
  if (shape.precision.math == DType::fp16) return sm90::fp16_entries();
  return shape.precision.math == DType::fp8 ? std::span<const GemmEntry>(kFp8) : std::span<const GemmEntry>(kBf16);
}

/// The compiled tile of a plan, or null.
const GemmEntry* entry_of(const Gemm& shape, const GemmPlan& plan) {
  const std::int64_t rows = plan.swapped ? plan.tile_n : plan.tile_m, cols = plan.swapped ? plan.tile_m : plan.tile_n;
  const std::int64_t cluster = plan.cluster_m * plan.cluster_n;
  for (const GemmEntry& e : entries(shape)) {
    if (e.rows == rows && e.cols == cols && e.stages == plan.stages && e.cluster == cluster &&
        e.step_elements == plan.tile_k) {
      return &e;
    }
  }
  return nullptr;
}

GemmCut cut_of(const GemmPlan& plan) { return {plan.swapped, plan.splits, plan.clipped}; }

}  // namespace

namespace {

/// Why operands of these types, lying like this, have no kernel.
const char* type_refusal(const Gemm& shape) {
  const Precision& p = shape.precision;
  const bool bf16 = p.input == DType::bf16 && p.weight == DType::bf16 && p.math == DType::bf16;
  const bool fp8 = p.input == DType::fp8 && p.weight == DType::fp8 && p.math == DType::fp8;
  const bool fp16 = p == *parse_precision("fp16");
  if (!bf16 && !fp8 && !fp16) return "operands must both be bf16, fp16 or fp8";
  if (adds_floats(shape)) {
    if (!bf16 || shape.layout != WeightLayout::kn) return "an fp32 result is a gradient of weights: bf16, layout kn";
    return "";
  }
  if (p.output != DType::bf16 && !fp16) return "the result must be bf16, fp32, or of fp16 operands fp16";
  if (shape.accumulate) return "only an fp32 result is added to";
  if (shape.layout != WeightLayout::nk && !bf16) return "operands of layout kn must be bf16";
  return "";
}

/// A tensor map's strides are whole units of 16 bytes.
const char* stride_refusal(const Gemm& shape) {
  const bool fp8 = shape.precision.math == DType::fp8, gradient = adds_floats(shape);
  if (!gradient && shape.k * (fp8 ? 1 : 2) % 16 != 0) return "a row of K must be a multiple of 16 bytes";
  if (gradient && shape.m * 2 % 16 != 0) return "a row of M must be a multiple of 16 bytes";
  if (shape.n * 2 % 16 != 0) return "a row of N must be a multiple of 16 bytes";
  return "";
}

}  // namespace

const char* gemm_sm90_refusal(const Gemm& shape, const GemmPlan& plan) {
  if (const char* refusal = type_refusal(shape); *refusal != '\0') return refusal;
  if (shape.bias) return "no kernel adds a bias";
  if (shape.m < 1 || shape.n < 1 || shape.k < 1 || shape.batch < 1) return "the shape is empty";
  if (shape.m > INT32_MAX || shape.n > INT32_MAX || shape.k > INT32_MAX) return "a size is beyond 2^31";
  if (const char* refusal = stride_refusal(shape); *refusal != '\0') return refusal;
  if (plan.swapped && shape.layout != WeightLayout::nk) return "operands of layout kn keep their sides";
  const GemmEntry* entry = entry_of(shape, plan);
  if (entry == nullptr) return "no kernel is compiled for the tile";
  if (plan.splits < 0 || plan.splits > (shape.k + plan.tile_k - 1) / plan.tile_k) return "a split would have no step";
  if (!sm90::gemm_can_share(*entry, shape, cut_of(plan))) return "too many tiles for a split of K";
  return "";
}

std::size_t gemm_sm90_workspace_bytes(const Gemm& shape, const GemmPlan& plan) {
  const GemmEntry* e = entry_of(shape, plan);
  return e == nullptr ? 0 : sm90::gemm_partial_bytes(*e, shape, cut_of(plan));
}

void launch_gemm_sm90(const Gemm& shape, const GemmPlan& plan, const GemmBuffers& buffers, StreamHandle stream) {
  sm90::launch_gemm_entry(*entry_of(shape, plan), shape, cut_of(plan), buffers, stream);
}

}  // namespace plumbline
