// The wgmma engine of kernels/gemm/gemm.hpp: the same three functions for plans of GemmEngine::wgmma.
#pragma once

#include "kernels/gemm/gemm.hpp"

namespace plumbline {

const char* gemm_sm90_refusal(const Gemm& shape, const GemmPlan& plan);
std::size_t gemm_sm90_workspace_bytes(const Gemm& shape, const GemmPlan& plan);
void launch_gemm_sm90(const Gemm& shape, const GemmPlan& plan, const GemmBuffers& buffers, StreamHandle stream);

}  // namespace plumbline
