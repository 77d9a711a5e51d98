#include "model/stacks/cutlass/scaled_tiles.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline::cutlass {
namespace {

/// Hopper.
ScaledTile by_warpgroups(const GemmTask& t) {
  constexpr double kFew = 16, kSome = 64, kMany = 128, kNarrow = 1280;
  constexpr double kManyRows = 8192, kDeep = 6144, kDeepStep = 256;
  if (t.m <= kSome) {
    const bool narrow = t.n <= kNarrow;
    ScaledTile few{.tile = {64, 16}, .step = kDeepStep, .swapped = true};
    if (narrow) few.cluster_cols = t.m <= kFew ? 2 : 4;
    else if (t.m > kFew) few.tile.cols = 64;
    return few;
  }
  if (t.m <= kMany) return {.tile = {64, 128}, .cluster_rows = 2, .persistent = true, .in_turns = true};
  if (t.m >= kManyRows && t.k >= kDeep) return {.tile = {256, 128}, .cluster_rows = 2, .persistent = true};
  return {.tile = {128, 128}, .cluster_rows = 2, .persistent = true, .in_turns = true};
}

/// B200's generation. Where a cluster has an even number of CTAs along the tile's rows and the tile 128 or 256 of them, two SMs
/// multiply it as one, half of its rows each. (CUTLASS, collective/builders/sm100_common.inl, KernelScheduleAuto.)
ScaledTile by_tensor_memory(const GemmTask& t) {
  constexpr double kFew = 16, kSome = 64, kMany = 256, kShallow = 4096, kDeepStep = 256;
  if (t.m == kSome && t.k < kShallow) return {.tile = {64, 64}, .persistent = true};
  ScaledTile tile{.persistent = true, .paired = true};
  if (t.m <= kSome) {
    tile.tile = t.m <= kFew ? gemm::Tile{64, 32} : gemm::Tile{64, 64};  // of 128 x 32 and 128 x 64
    if (t.m > kFew) tile.step = kDeepStep;
    tile.swapped = true;
    tile.cluster_rows = 4;
  } else if (t.m <= kMany) {
    tile.tile = {64, 128};  // of 128 x 128
    tile.cluster_rows = 2;
  } else {
    tile.tile = {128, 128};  // of 256 x 128
    tile.cluster_rows = tile.cluster_cols = 2;
  }
  return tile;
}

/// RTX Blackwell: tensor maps feed mma.sync.
ScaledTile by_maps(const GemmTask& t) {
  constexpr double kSixteen = 16, kThirtyTwo = 32, kMany = 256;
  if (t.m <= kSixteen) return {.tile = {16, 64}, .warp_rows = 16, .warp_cols = 16};
  if (t.m <= kThirtyTwo) return {.tile = {32, 64}, .warp_rows = 16, .warp_cols = 32};
  if (t.m <= kMany) return {.tile = {64, 64}, .warp_rows = 32, .warp_cols = 32};
  return {.tile = {128, 128}};
}

double power_of_two_from(double size) { return std::exp2(std::ceil(std::log2(size))); }

/// Ada: by powers of two that rows and columns do not exceed.
ScaledTile by_cp_async(const GemmTask& t) {
  constexpr double kHalfStep = 64, kFourK = 4096, kEightK = 8192, kSixteenK = 16384, kWidest = 24576;
  const double rows = std::max(16.0, power_of_two_from(t.m)), cols = power_of_two_from(t.n);
  if (rows <= 16) {
    if (cols <= kEightK) return {.tile = {16, 64}, .warp_rows = 16, .stages = 5};
    if (cols <= kWidest) return {.tile = {16, 128}, .step = kHalfStep, .warp_rows = 16, .stages = 5};
    return {.tile = {32, 64}, .warp_rows = 16, .stages = 5};
  }
  if (rows <= 32) {
    if (cols > kEightK && cols <= kSixteenK) return {.tile = {32, 128}, .warp_rows = 32, .stages = 4};
    return {.tile = {32, 64}, .warp_rows = 16, .stages = 5};
  }
  if (rows <= 64) {
    if (cols > kEightK && cols <= kSixteenK) return {.tile = {64, 128}, .stages = 3};
    return {.tile = {64, 64}, .warp_rows = 32, .stages = 5};
  }
  const ScaledTile square{.tile = {128, 128}, .step = kHalfStep, .stages = 5};
  if (rows <= 128) {
    if (cols <= kEightK) return {.tile = {64, 128}, .stages = 3};
    return cols <= kSixteenK ? square : ScaledTile{.tile = {128, 64}, .stages = 3};
  }
  if (rows <= 256) return cols <= kFourK ? ScaledTile{.tile = {64, 128}, .stages = 3} : square;
  return cols > kFourK && cols <= kEightK ? ScaledTile{.tile = {256, 128}, .step = kHalfStep, .stages = 3} : square;
}

}  // namespace

ScaledTile scaled_tile(const GemmTask& t, const Rates& m) {
  switch (m.path.kind) {
    case TensorPath::Kind::wgmma: return by_warpgroups(t);
    case TensorPath::Kind::tcgen05: return by_tensor_memory(t);
    case TensorPath::Kind::mma_sync: break;
  }
  return m.gpu.sm.async_copy == AsyncCopy::tma ? by_maps(t) : by_cp_async(t);
}

}  // namespace plumbline::cutlass
