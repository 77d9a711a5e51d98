// Planner of products of one row, as torch.bmm (batches) and torch.matmul hand them to cuBLAS's older interface
// (cublasGemmStridedBatchedEx): kernels named gemvx where rows are no whole 16-byte units. (Where they are, a matrix
// kernel runs.)
#pragma once

#include "model/engine/rates.hpp"
#include "model/stacks/common/gemm_task.hpp"

namespace plumbline {

/// One row: of 16-bit operands where rows of the weights or of the result are such that no tensor map describes, of
/// one product in four bytes always.
bool runs_as_gemv(const GemmTask& task);

/// The launch. Clocks of instructions are of Hopper.
Demand gemv_demand(const GemmTask& task, const Rates& rates);

}  // namespace plumbline
