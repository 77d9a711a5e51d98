// Planner of cuBLAS's GEMM. Where the card fetches tiles by TMA and rows are whole 16-byte units (cuBLAS from 12 on:
// "nvjet" kernels): read off the kernels' names in 480 recorded launches on an H200 (data/measurements/h200, cuBLAS
// 13.1, 2026-11-20). Elsewhere kernels that fetch by cp.async.
#pragma once

#include "model/engine/rates.hpp"
#include "model/stacks/common/gemm_task.hpp"

namespace plumbline {

namespace gemm {
/// Dependent ways to memory before a library's first product, when nothing of the kernel is in L2: code and launch
/// parameters, tensor map, operands. (Fitted between cold recordings and published rows whose weights stay in L2: 3.7.
/// The same row-wise kernel takes 1.2 us longer cold than warm: docs/measuring.md.)
constexpr double kColdTrips = 4;
}  // namespace gemm

/// The scalars of the kernel that runs the task.
const FamilyScalars& cublas_gemm_family(const GemmTask& task, const Rates& rates);

GemmChoice plan_cublas_gemm(const GemmTask& task, const Rates& rates, GemmCache& cache);

}  // namespace plumbline
