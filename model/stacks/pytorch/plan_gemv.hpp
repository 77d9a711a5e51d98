// Planner of batched products of one row, as torch.bmm hands them to cuBLAS's older interface (cublasGemmStridedBatchedEx):
// kernels named gemvx where rows are no whole 16-byte units. (Where they are, a matrix kernel runs.)
#pragma once

#include "model/engine/rates.hpp"
#include "model/stacks/common/gemm_task.hpp"

namespace plumbline {

/// One row, more than one product, 16-bit operands, and rows of the weights or of the result that no tensor map describes.
bool runs_as_gemv(const GemmTask& task);

/// The launch. Clocks of instructions are of Hopper.
Demand gemv_demand(const GemmTask& task, const Rates& rates);

}  // namespace plumbline
