// Products that cuBLAS 13 runs on Hopper by kernels made for sm_80: 8-bit integers by mma.sync, fp32 on ordinary lanes.
// Tiles, rings and launches are those of 67 recorded products (data/measurements/h200/pytorch, kernel names and grids).
#pragma once

#include "model/stacks/common/gemm_tiles.hpp"

namespace plumbline::cublas {

/// 8-bit integers on cards whose tensor units have warpgroup instructions: cuBLAS has no kernels of that kind for them.
bool runs_as_int8(const GemmTask& task, const Rates& rates);
GemmChoice plan_int8(const gemm::Context& context, GemmCache& cache);

/// tf32 products of so few tiles that cuBLAS takes kernels made for sm_80, whose parts of K a second launch adds up (by its
/// answer to the nearest shape, for cards that have as many SMs as the one that was asked, or fewer).
bool runs_as_small_tf32(const GemmTask& task, const Rates& rates);
GemmChoice plan_small_tf32(const gemm::Context& context, GemmCache& cache);

/// fp32 where no tensor unit takes it.
bool is_on_lanes(const GemmTask& task, const Rates& rates);
/// SMs that have a lane for each thread of the warps that they issue: what limits is issue, not lanes, and the plan is
/// plan_lanes(). (Where lanes are half of that, as on A100, they are busy all the time: cp_async.cpp.)
bool has_lanes_for_all(const Rates& rates);
GemmChoice plan_lanes(const gemm::Context& context, GemmCache& cache);

}  // namespace plumbline::cublas
