// cuSPARSELt's products of 2:4 sparse weights on Hopper, and PyTorch's launch that prunes and compresses a weight both ways.
#pragma once

#include "model/stacks/common/gemm_cache.hpp"
#include "model/stacks/common/gemm_tiles.hpp"
#include "ops/facts/work.hpp"
#include "ops/shape/sparsify24.hpp"

namespace plumbline::cublas {

/// Whether the card has such kernels for operands of 16 bits and less, and an SM room for two steps of their tile.
bool holds_sparse_tiles(const GemmTask& task, const Rates& rates);
GemmChoice plan_sparse(const gemm::Context& context, GemmCache& cache);

/// sparse_semi_structured_tile_kernel of PyTorch 2.11: a warp has 32 x 64 weights, and nothing but its instructions limits it.
/// `step_clk`: clocks of an SM that a warp issues for; `step_s`: its chain beside the way to memory.
Demand sparsify_demand(const Sparsify24& shape, const Work& work, const FamilyScalars& family, const Rates& rates);

}  // namespace plumbline::cublas
