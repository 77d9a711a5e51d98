// GEMM of any kernel set: which planner is asked for a shape, and what its kernel is priced with.
#pragma once

#include "model/engine/rates.hpp"
#include "model/stacks/common/gemm_task.hpp"
#include "model/stacks/own/plan_gemm.hpp"
#include "ops/op/shapes.hpp"

namespace plumbline {

/// The scalars that a GEMM of the task is priced with, and those of its split-K reduction.
const FamilyScalars& gemm_family(const GemmTask& task, const Rates& rates);
const FamilyScalars& reduce_family(const GemmTask& task, const Rates& rates);

/// The cheapest plan of the kernel set that runs the task. The answer lives in the cache until the next question.
const GemmChoice& plan_gemm(const GemmTask& task, const Rates& rates, GemmCache& cache);

/// FLOP a clock of one SM in that format: on tensor units, of plain fp32 and fp64 else on ordinary lanes; 0 where the
/// GPU has no path for it.
double matrix_flop_per_clk(DType math, const Rates& rates);

/// The task that a shape asks for, of a format that the GPU has a path for.
GemmTask gemm_task(const Gemm& shape, const Rates& rates);
GemmTask gemm_task(const GemmSparse24& shape, const Rates& rates);
/// One GEMM an expert that has tokens: all experts that are expected to be touched, each with the mean load of those.
GemmTask gemm_task(const GroupedGemm& shape, const Rates& rates);

}  // namespace plumbline
