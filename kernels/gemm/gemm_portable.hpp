// The GEMM that needs no TMA and no wgmma: compute capability 8.0 and later, any M, N and K. bf16 only. gemm.hpp's
// entry points dispatch to it for GemmEngine::mma_sync; the rules of launch.hpp.
#pragma once

#include <cstddef>

#include "kernels/gemm/gemm.hpp"

namespace plumbline {

/// Null when the plan can be launched for the shape, else the reason in words.
const char* gemm_portable_refusal(const Gemm& shape, const GemmPlan& plan);
/// fp32 partials of a split, rows padded to 16 bytes; 0 without one.
std::size_t gemm_portable_workspace_bytes(const Gemm& shape, const GemmPlan& plan);
/// One launch, and with splits > 1 the reduction behind it. Throws NotModelled with the refusal's words.
void launch_gemm_portable(const Gemm& shape, const GemmPlan& plan, const GemmBuffers& buffers, StreamHandle stream);
/// The launch as the hardware sees it; registers are not filled in. The plan must not be refused.
KernelPlan gemm_portable_launch_plan(const Gemm& shape, const GemmPlan& plan);

}  // namespace plumbline
