// The Hopper GEMM's tiles, and which plan means which. The design is described in gemm_sm90.cuh.
//
// Variants tried (H200 SXM 141 GB, driver 580, CUDA 13.0, 2026-11-20; random normal values, operands rotated over
// more than 3x L2, graphs of launches, median; TFLOP/s unless said; cuBLAS 13 by the same method in the same job).
// Figures of one line were measured in one job; the card's power state moves whole jobs by some 3 %.
// - bf16 8192^3: tile 128x256, 4 stages, two consumer warpgroups 784, the same in clusters of two that share the
//   columns 784; 128x192 777; 128x128 729 (in clusters 717); cuBLAS 790. First version: 64x256 588 and 128x128 as
//   two CTAs an SM with 3 stages 623, against 786. 784 is what busy tensor cores do at 1.45 GHz, of 1.98: power is
//   likely to be the limit (clocks were not sampled).
// - Releasing a stage to the cluster with mbarrier.arrive.release.cluster instead of the plain form: 514 in clusters
//   for 786 without, where the plain form gives the same in both.
// - Widths between: 5120^3 776 with 128x224, 758 with 128x256 and a cut last wave, less than 720 without. Gate and
//   up projections have factors of 7: 512 x 28672 x 4096 751 with 224, 720 with 256; 256 x 6144 x 4096 601 with 96,
//   543 with 128.
// - Swapped operands instead of a compiled 256x128: the same rate (777 and 784 at 8192^3).
// - 256x112, a consumer having two blocks of 64 rows: 300 and 777 are 3 and 7 times 112, 9 and 5 % faster than any
//   other.
// - Dealing K steps evenly to all CTAs (stream-K) lost nearly everywhere: 2048 x 4096 x 14336 435 against 807, as
//   CTAs at different K share nothing in L2. It won where a last wave is nearly empty (5120^3 735 against 710): kept
//   as splits = 0, only for the tiles of the last wave.
// - Adding up a split inside the kernel: 16 x 4096 x 14336 32.5 us in two parts, 36.0 in one, 37.7 in six; cuBLAS
//   31.7.
// - Few tokens: 16 x 28672 x 4096 58.1 us (4.0 TB/s), 16 x 8192 x 28672 107 us (4.4 TB/s). Two CTAs an SM with 10
//   stages or one with 16: 59.6 and 62.9 us, 12.5 and 12.3 us at 16 x 4096 x 4096. A column side wider than the
//   tokens costs: 16 tokens in 64 columns 82.6 us for 62.9.
// - Promotion of L2 fetches to 256 bytes in the tensor maps, none after it: 16 x 8192 x 28672 111 -> 107 us; rows of
//   K that straddle cache lines, 2000 x 5000 x 5000 614 -> 691; large aligned shapes the same.
// - fp8: the tensor cores carry a sum on with about 14 significant bits. Relative error of y at K = 16384: never
//   promoted 3.5e-3, every 2048 elements 1.86e-3, every 1024 1.75e-3, every 512 1.70e-3, every 128 1.67e-3; rounding
//   to bf16 alone is 1.65e-3. 4096 x 7168 x 16384: never 1423 (128x192) or 1525 (128x256, whose second set of sums
//   does not fit the registers), every 512 1348, every 128 1236; 8192^3: never 1478, every 2048 1453, every 1024
//   1436, every 512 1423. Chosen: every 1024. Staggering the two warpgroups' promotions changes nothing. cuBLAS with
//   fast accumulation does not promote: 1543 and 1474.
// - Geometric mean of cuBLAS's time over ours, best plan of each: bf16 M >= 256 0.99 (41 shapes, least 0.91), M <=
//   128 1.01 (27, least 0.94); fp8 M >= 256 0.92 (11, least 0.87), M <= 128 0.99 (8). Below 0.93: 300 x 11008 x 4096
//   (cuBLAS has 256x104), 2000 x 5000 x 5000 0.92 (rows that straddle cache lines; without clusters half again as
//   long), 700 x 7168 x 2048 0.89 (cuBLAS has 128x176).
#include "kernels/gemm/gemm_sm90.hpp"

#include <span>

#include "kernels/gemm/gemm_sm90_launch.cuh"
#include "ops/plan/kernel_menu.hpp"

namespace plumbline {
namespace {

using device::sm90::GemmTile;
using sm90::gemm_entry;
using sm90::GemmCut;
using sm90::GemmEntry;

/// rows, cols, stages, cluster, CTAs an SM
template <int... kTile>
using Bf16 = GemmTile<kTile..., false, 0>;
/// An fp8 sum is promoted every 8 steps: 1024 elements of K.
template <int... kTile>
using Fp8 = GemmTile<kTile..., true, 8>;

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

std::span<const GemmEntry> entries(const Gemm& shape) {
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

GemmCut cut_of(const GemmPlan& plan) { return {plan.swapped, plan.splits}; }

}  // namespace

const char* gemm_sm90_refusal(const Gemm& shape, const GemmPlan& plan) {
  const Precision& p = shape.precision;
  const bool bf16 = p.input == DType::bf16 && p.weight == DType::bf16 && p.math == DType::bf16;
  const bool fp8 = p.input == DType::fp8 && p.weight == DType::fp8 && p.math == DType::fp8;
  if (!bf16 && !fp8) return "operands must both be bf16 or both fp8";
  if (p.output != DType::bf16) return "the result must be bf16";
  if (shape.bias) return "no kernel adds a bias";
  if (shape.m < 1 || shape.n < 1 || shape.k < 1 || shape.batch < 1) return "the shape is empty";
  if (shape.m > INT32_MAX || shape.n > INT32_MAX || shape.k > INT32_MAX) return "a size is beyond 2^31";
  if (shape.k * (fp8 ? 1 : 2) % 16 != 0) return "a row of K must be a multiple of 16 bytes";
  if (shape.n * 2 % 16 != 0) return "a row of N must be a multiple of 16 bytes";
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
