// Rotary embedding in place.
#include "kernels/common/cuda_check.hpp"
#include "kernels/rows/rope.cuh"

namespace plumbline {

device::RopeShape rope_shape(const Rope& s) {
  const int half = static_cast<int>(s.head_dim / 2);
  if (s.head_dim % 2 != 0 || half < 1 || half > device::kMaxHalf) {
    throw NotModelled("rope: our kernel takes an even head width up to 512");
  }
  const std::int64_t per_head = half % device::kVector == 0 ? half / device::kVector : half;
  const std::int64_t items = s.tokens * s.heads * per_head;
  if (s.tokens < 1 || s.heads < 1 || items > 0x7fffff00) throw NotModelled("rope: our kernel takes up to 2^31 vectors");
  return {items, device::Divider(s.heads * per_head), device::Divider(per_head), static_cast<int>(s.heads), half};
}

KernelPlan rope_plan(const Rope& s) {
  KernelPlan p;
  p.ctas = (rope_shape(s).items + device::kRopeThreads - 1) / device::kRopeThreads;
  p.threads = device::kRopeThreads;
  return p;
}

namespace {

template <class E>
void launch_rope_of(const Rope& s, void* x, const std::int32_t* positions, const float* inverse_frequency,
                    StreamHandle handle) {
  const device::RopeShape shape = rope_shape(s);
  using To = device::TurnInPlace<E>;
  const auto kernel = shape.half % device::kVector == 0 ? device::rope<true, To> : device::rope<false, To>;
  auto* data = static_cast<E*>(x);
  kernel<<<static_cast<unsigned>(rope_plan(s).ctas), device::kRopeThreads, 0, static_cast<cudaStream_t>(handle)>>>(
      data, To{data, shape.heads, 2 * shape.half}, positions, inverse_frequency, shape);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_rope(const Rope& s, void* x, const std::int32_t* positions, const float* inverse_frequency,
                 StreamHandle handle) {
  if (s.dtype == DType::fp16) return launch_rope_of<__half>(s, x, positions, inverse_frequency, handle);
  if (s.dtype != DType::bf16) throw NotModelled("rope: our kernel is for bf16 and fp16");
  launch_rope_of<device::bf16>(s, x, positions, inverse_frequency, handle);
}

}  // namespace plumbline
