// What the two launches of a split decode share: the layout of the partial results in the workspace.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "ops/plan/plans.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline::decode {

/// fp32, of `rows` = B * Hq query rows: output[rows, splits, D], already divided by its sum of exponentials, and behind
/// it log_sum[rows, splits], log2 of that sum times 2^(its largest score); minus infinity for a split without keys.
struct Partials {
  float* output = nullptr;
  float* log_sum = nullptr;
};
Partials partials(void* workspace, const AttentionDecode& shape, const AttentionPlan& plan);

/// o[B, Hq, D] from the partials of all splits. `chained`: launched so that it may start while the launch before it
/// ends (programmatic dependent launch).
void launch_combine(const AttentionDecode& shape, const AttentionPlan& plan, void* workspace, void* o,
                    cudaStream_t stream, bool chained);

}  // namespace plumbline::decode
