// Operators on whole rows: the plan and the choice of a kernel; those for bf16 (row_kernels.cuh has them).
#include <string>

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/measure.cuh"
#include "kernels/rows/flat.cuh"
#include "kernels/rows/row_kernels.cuh"

namespace plumbline {

template void launch_rows_of<device::bf16>(const Rowwise&, const RowChoice&, const RowwiseBuffers&, cudaStream_t);

namespace {

RowChoice choose(const Rowwise& s) {
  const RowChoice chosen = choose_row_tile(s, sm_count());
  if (chosen.choice.entry < 0)
    throw NotModelled(std::string(name(s.kind)) + ": our kernel takes rows of up to 512 Ki columns");
  return chosen;
}

void check(const Rowwise& s) {
  const bool quantize = s.kind == RowwiseKind::quantize, narrow = s.input == DType::bf16 || s.input == DType::fp16;
  if (!narrow || s.output != (quantize ? DType::fp8 : s.input)) {
    throw NotModelled(std::string(name(s.kind)) + ": our kernel is for bf16 or fp16 in and " +
                      (quantize ? "fp8" : "the same") + " out");
  }
  if (s.rows < 1 || s.cols < 1 || s.rows > (std::int64_t{1} << 30) || s.cols > (std::int64_t{1} << 30)) {
    throw BadInput(std::string(name(s.kind)) + ": expected rows and cols from 1 to 2^30");
  }
  if (s.residual && s.kind != RowwiseKind::rmsnorm && s.kind != RowwiseKind::layernorm) {
    throw NotModelled(std::string(name(s.kind)) + ": our kernel takes no residual");
  }
}

}  // namespace

KernelPlan rowwise_plan(const Rowwise& s) {
  if (!is_by_rows(s.kind)) return flat_plan(s);
  const RowChoice chosen = choose(s);
  return plan_of(chosen.tile(), chosen.choice, s.rows);
}

void launch_rowwise(const Rowwise& s, const RowwiseBuffers& b, StreamHandle handle) {
  check(s);
  auto* stream = static_cast<cudaStream_t>(handle);
  if (!is_by_rows(s.kind)) launch_flat(s, b, handle);
  else if (s.input == DType::fp16) launch_rows_of<__half>(s, choose(s), b, stream);
  else launch_rows_of<device::bf16>(s, choose(s), b, stream);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline
