// cuBLAS's kernels that fetch by cp.async: those of cards without tensor maps, and elsewhere of rows that none describes.
#pragma once

#include "model/stacks/common/gemm_cache.hpp"
#include "model/stacks/common/gemm_tiles.hpp"

namespace plumbline::cublas {

GemmChoice plan_cp_async(const gemm::Context& context, GemmCache& cache);

}  // namespace plumbline::cublas
