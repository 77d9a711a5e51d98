// Ways to hold a row in registers, and launching one of them: shared by the operators that need whole rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda_check.hpp"
#include "kernels/row.cuh"
#include "ops/plans.hpp"

namespace plumbline {

namespace device {
constexpr int kRowsPerCta = 8;  ///< of the warp-per-row variant
}

/// One compiled way: `vecs` vectors of 8 elements in each of `threads` threads, of one CTA or of each of a cluster.
struct Holding {
  int threads = 0, vecs = 0;
  bool clustered = false;
};

/// A holding and the CTAs a row; rows a CTA with it.
struct Choice {
  int entry = -1, cluster = 1, rows = 1;
};

inline bool whole_rows(std::int64_t cols) { return cols % device::kVector == 0; }

/// The narrowest entry from `menu` (ascending in what it holds, cluster entries last) that holds the row; a cluster
/// entry takes as few CTAs as it can, but at least `least`.
inline Choice choose(std::span<const Holding> menu, std::int64_t cols, int least = 1) {
  const std::int64_t spare = whole_rows(cols) ? 0 : device::kVector;  // a row of any alignment touches a vector more
  for (std::size_t i = 0; i < menu.size(); ++i) {
    const Holding& h = menu[i];
    const std::int64_t holds = std::int64_t{device::kVector} * h.threads * h.vecs;
    const int entry = static_cast<int>(i);
    if (!h.clustered && least == 1 && cols + spare <= holds)
      return {entry, 1, h.threads == device::kWarp ? device::kRowsPerCta : 1};
    for (int cluster = std::max(2, least); h.clustered && cluster <= device::kMaxCluster; cluster *= 2) {
      if (cols + spare * cluster <= holds * cluster) return {entry, cluster, 1};
    }
  }
  return {};
}

inline KernelPlan plan_of(const Holding& holding, const Choice& choice, std::int64_t rows) {
  KernelPlan p;
  p.ctas = (rows + choice.rows - 1) / choice.rows * choice.cluster;
  p.threads = std::int64_t{holding.threads} * choice.rows;
  p.cluster = choice.cluster;
  return p;
}

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
