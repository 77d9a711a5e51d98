// Dispatch of a GEMM plan to its engine.
#include "kernels/gemm/gemm.hpp"

#include <string>

#include "arch/error.hpp"
#include "kernels/gemm/gemm_portable.hpp"
#include "kernels/gemm/gemm_sm90.hpp"

namespace plumbline {
namespace {

bool portable(const GemmPlan& plan) { return plan.engine == GemmEngine::mma_sync; }

}  // namespace

const char* gemm_refusal(const Gemm& shape, const GemmPlan& plan) {
  if (!portable(plan)) return gemm_sm90_refusal(shape, plan);
  const char* refusal = gemm_portable_refusal(shape, plan);
  return refusal == nullptr ? "" : refusal;
}

std::size_t gemm_workspace_bytes(const Gemm& shape, const GemmPlan& plan) {
  return portable(plan) ? gemm_portable_workspace_bytes(shape, plan) : gemm_sm90_workspace_bytes(shape, plan);
}

void launch_gemm(const Gemm& shape, const GemmPlan& plan, const GemmBuffers& buffers, StreamHandle stream) {
  const char* refusal = gemm_refusal(shape, plan);
  if (*refusal != '\0') throw NotModelled(std::string("gemm: ") + refusal);
  if (portable(plan)) return launch_gemm_portable(shape, plan, buffers, stream);
  launch_gemm_sm90(shape, plan, buffers, stream);
}

}  // namespace plumbline
