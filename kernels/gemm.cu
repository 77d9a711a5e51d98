// Dispatch of a GEMM plan to its engine.
#include "kernels/gemm.hpp"

#include <string>

#include "arch/error.hpp"
#include "kernels/gemm_sm90.hpp"
#if __has_include("kernels/gemm_portable.hpp")
#include "kernels/gemm_portable.hpp"
#define PLUMBLINE_GEMM_PORTABLE 1
#endif

namespace plumbline {
namespace {

bool portable(const GemmPlan& plan) { return plan.engine == GemmEngine::mma_sync; }

}  // namespace

const char* gemm_refusal(const Gemm& shape, const GemmPlan& plan) {
  if (!portable(plan)) return gemm_sm90_refusal(shape, plan);
#ifdef PLUMBLINE_GEMM_PORTABLE
  const char* refusal = gemm_portable_refusal(shape, plan);
  return refusal == nullptr ? "" : refusal;
#else
  return "the mma_sync engine is not compiled in";
#endif
}

std::size_t gemm_workspace_bytes(const Gemm& shape, const GemmPlan& plan) {
#ifdef PLUMBLINE_GEMM_PORTABLE
  if (portable(plan)) return gemm_portable_workspace_bytes(shape, plan);
#endif
  return portable(plan) ? 0 : gemm_sm90_workspace_bytes(shape, plan);
}

void launch_gemm(const Gemm& shape, const GemmPlan& plan, const GemmBuffers& buffers, StreamHandle stream) {
  const char* refusal = gemm_refusal(shape, plan);
  if (*refusal != '\0') throw NotModelled(std::string("gemm: ") + refusal);
#ifdef PLUMBLINE_GEMM_PORTABLE
  if (portable(plan)) return launch_gemm_portable(shape, plan, buffers, stream);
#endif
  launch_gemm_sm90(shape, plan, buffers, stream);
}

}  // namespace plumbline
