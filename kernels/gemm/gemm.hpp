// Launchers of our GEMM kernels, in plain C++. Same rules as launch.hpp: device pointers aligned to 16 bytes, nothing
// allocated or synchronised in here, DeviceError when a launch is refused, NotModelled for a shape without a kernel.
#pragma once

#include <cstddef>

#include "kernels/common/launch.hpp"
#include "ops/plan/plans.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// y[M,N] (bf16) = scale * x[M,K] W[N,K]^T, accumulated in fp32; x and W both bf16 or both fp8 (e4m3).
struct GemmBuffers {
  const void* x = nullptr;
  const void* w = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;  ///< gemm_workspace_bytes(), contents irrelevant
  float scale = 1;            ///< product of the operands' scales
};

/// Empty when the plan can be launched for the shape, else the reason in words ("K * 2 bytes must be a multiple of
/// 16").
const char* gemm_refusal(const Gemm& shape, const GemmPlan& plan);
/// fp32 partials of a split; 0 without one. Asks the current device how many SMs it has.
std::size_t gemm_workspace_bytes(const Gemm& shape, const GemmPlan& plan);
/// The plan's launches. wgmma: one, a split included (of launches with a split 64 may be in flight at once, as they
/// take turns at 64 sets of counters); mma_sync: with splits > 1 the reduction behind it.
void launch_gemm(const Gemm& shape, const GemmPlan& plan, const GemmBuffers& buffers, StreamHandle stream);

}  // namespace plumbline
