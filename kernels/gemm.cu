// Dispatch of a GEMM plan to its engine.
#include "kernels/gemm.hpp"

#include <string>

#include "arch/error.hpp"
#include "kernels/gemm_sm90.hpp"

namespace plumbline {

const char* gemm_refusal(const Gemm& shape, const GemmPlan& plan) {
  if (plan.engine == GemmEngine::wgmma) return gemm_sm90_refusal(shape, plan);
  return "the mma_sync engine is not compiled in";
}

std::size_t gemm_workspace_bytes(const Gemm& shape, const GemmPlan& plan) {
  if (plan.engine == GemmEngine::wgmma) return gemm_sm90_workspace_bytes(shape, plan);
  return 0;
}

void launch_gemm(const Gemm& shape, const GemmPlan& plan, const GemmBuffers& buffers, StreamHandle stream) {
  const char* refusal = gemm_refusal(shape, plan);
  if (*refusal != '\0') throw NotModelled(std::string("gemm: ") + refusal);
  launch_gemm_sm90(shape, plan, buffers, stream);
}

}  // namespace plumbline
