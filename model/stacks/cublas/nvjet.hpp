// cuBLAS's kernels that fetch tiles by TMA (from cuBLAS 12 on, "nvjet" by name): which tile, which order, how often K is cut.
#pragma once

#include "model/stacks/common/gemm_cache.hpp"
#include "model/stacks/common/gemm_tiles.hpp"

namespace plumbline::cublas {

/// Of any tile the plan that the library's own choice gives, priced as it runs; else the cheapest.
GemmChoice plan_nvjet(const gemm::Context& context, GemmCache& cache);

}  // namespace plumbline::cublas
