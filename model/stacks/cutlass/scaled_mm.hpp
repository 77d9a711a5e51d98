// vLLM's products of two operands in 8-bit floats with given scales (cutlass_scaled_mm()).
#pragma once

#include "model/stacks/common/gemm_task.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline::cutlass {

/// One tile, by size; K is not cut.
GemmChoice plan_scaled(const GemmTask& task, const Rates& rates, const FamilyScalars& family, GemmCache& cache);

/// Rounds rows of x by a scale that is given.
Demand round_given(double rows, double cols, DType from, double held, const FamilyScalars& family, const Rates& rates);

}  // namespace plumbline::cutlass
