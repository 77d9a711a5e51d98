// cuBLAS's kernels that fetch by cp.async: those of cards without tensor maps, and elsewhere of rows that none describes.
#pragma once

#include "model/stacks/common/gemm_cache.hpp"
#include "model/stacks/common/gemm_tiles.hpp"

namespace plumbline::cublas {

/// GA10x, Ada and RTX Blackwell: mma.sync and cp.async, with room for a ring of two tiles of 128 x 256, no more. What tiles
/// reach of GDDR, and of the tensor rate, are two scalars of their own: rows of an RTX A6000 tell them from an A100's.
bool has_small_sms(const Rates& rates);

/// `whole_k`: of kernels that do not cut K.
GemmChoice plan_cp_async(const gemm::Context& context, GemmCache& cache, bool whole_k = false);

}  // namespace plumbline::cublas
