// Launches one of the compiled row tiles (ops/plan/row_menu.hpp); the operators that need whole rows share it.
#pragma once

#include "kernels/common/cuda_check.hpp"
#include "kernels/rows/row.cuh"
#include "ops/plan/row_menu.hpp"

namespace plumbline {

static_assert(kRowVector == device::kVector && kRowWarp == device::kWarp && kMostRowCtas == device::kMaxCluster);

template <class Args>
void launch_plan(void (*kernel)(Args), const KernelPlan& plan, const Args& args, cudaStream_t stream) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(plan.cluster);
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(plan.ctas));
  config.blockDim = dim3(static_cast<unsigned>(plan.threads));
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = plan.cluster > 1 ? 1 : 0;
  PLUMBLINE_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, args));
}

}  // namespace plumbline
