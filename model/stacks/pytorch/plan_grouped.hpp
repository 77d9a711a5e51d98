// Planner of torch._grouped_mm: CUTLASS's grouped product as PyTorch builds it for Hopper and Blackwell.
#pragma once

#include "model/engine/rates.hpp"
#include "model/stacks/common/gemm_task.hpp"
#include "ops/shape/grouped_gemm.hpp"

namespace plumbline {

/// The task of GroupedGemm as _grouped_mm meets it. `small`: results have at most 128 rows, in the mean over all experts, or
/// as many columns, so that the small of its two kernels runs. `by_rows`: an expert's rows are K. `spread`: experts' rows
/// lie evenly between (1 - spread) and (1 + spread) of their mean.
struct GroupedMm {
  GemmTask task;
  bool small = false, by_rows = false;
  double spread = 0;
};
GroupedMm grouped_mm_task(const GroupedGemm& shape, const Rates& rates);

/// Whether PyTorch has the kernel there: it is built for cards whose copies fill a cluster's shared memory at once. On
/// others PyTorch loops over the experts.
bool has_grouped_mm(const GroupedMm& task, const Rates& rates);

GemmChoice plan_grouped_mm(const GroupedMm& task, const Rates& rates, const FamilyScalars& family, GemmCache& cache);

}  // namespace plumbline
