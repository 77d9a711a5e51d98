// Planner of cuBLAS's GEMM. Where the card fetches tiles by TMA and rows are whole 16-byte units (cuBLAS from 12 on:
// "nvjet" kernels): read off the kernels' names in 480 recorded launches on an H200 (data/measurements/h200, cuBLAS
// 13.1, 2026-11-20). Elsewhere kernels that fetch by cp.async.
#pragma once

#include <cstddef>
#include <span>

#include "model/engine/rates.hpp"
#include "model/stacks/common/gemm_task.hpp"

namespace plumbline {

namespace cublas {
/// Its families, in the order in which provider.cpp declares them. `kGemmMma`: fetched by cp.async, all of it on cards
/// without TMA, elsewhere rows that no tensor map describes; `kGemmMmaSmall`: the same on SMs of 100 KB. `kReduce`: the second
/// launch of a split-K GEMM. `kRows`, `kScales`, `kTokenScales`: activations that are rounded first. `kBlock`: products with scales of 128 columns, as serving stacks run them;
/// `kScaled`: cuBLASLt's own, and of rows. `kXmma`: tf32 on Hopper. `kInt8`, `kLanes`: other_types.hpp.
/// `kFewTiles`: before "nvjet", on Hopper. `kSparse`, `kSparsify`: sparse.hpp.
enum Family : std::size_t {
  kGemm,
  kGemmMma,
  kGemmMmaSmall,
  kGrouped,
  kReduce,
  kRows,
  kScales,
  kTokenScales,
  kBlock,
  kScaled,
  kXmma,
  kInt8,
  kLanes,
  kFewTiles,
  kSparse,
  kSparsify,
  kFamilies
};

/// That of the kernel which runs the task.
Family family_of(const GemmTask& task, const Rates& rates, std::span<const FamilyScalars> families);
}  // namespace cublas

GemmChoice plan_cublas_gemm(const GemmTask& task, const Rates& rates, std::span<const FamilyScalars> families,
                            GemmCache& cache);

}  // namespace plumbline
