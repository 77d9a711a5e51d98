// AdamW over one array: 28 bytes an element, 14 of them written. A thread has two groups of 4 neighbouring elements,
// 16 bytes of each fp32 array, so that eight loads are on their way before the first use.
#include "kernels/rows/adamw.cuh"

#include <string>

#include "kernels/common/cuda_check.hpp"

namespace plumbline {
namespace device {

constexpr int kAdamwThreads = 256, kAdamwGroup = 4, kAdamwGroups = 2;

struct AdamwArrays {
  const bf16* gradient;
  float *first, *second, *master;
  bf16* weights;
};

__global__ void __launch_bounds__(kAdamwThreads) adamw(const AdamwArrays a, const AdamwNumbers n, std::int64_t groups) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (kAdamwThreads * kAdamwGroups) + threadIdx.x;
  uint2 g[kAdamwGroups];
  float4 m[kAdamwGroups], v[kAdamwGroups], w[kAdamwGroups];
#pragma unroll
  for (int i = 0; i < kAdamwGroups; ++i) {
    const std::int64_t at = first + i * kAdamwThreads;
    if (at >= groups) break;
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(g[i].x), "=r"(g[i].y) : "l"(a.gradient + at * kAdamwGroup));
    m[i] = load_four(a.first + at * kAdamwGroup);
    v[i] = load_four(a.second + at * kAdamwGroup);
    w[i] = load_four(a.master + at * kAdamwGroup);
  }
#pragma unroll
  for (int i = 0; i < kAdamwGroups; ++i) {
    const std::int64_t at = first + i * kAdamwThreads;
    if (at >= groups) break;
    adamw_update(__uint_as_float(g[i].x << 16), m[i].x, v[i].x, w[i].x, n);
    adamw_update(__uint_as_float(g[i].x & 0xffff0000U), m[i].y, v[i].y, w[i].y, n);
    adamw_update(__uint_as_float(g[i].y << 16), m[i].z, v[i].z, w[i].z, n);
    adamw_update(__uint_as_float(g[i].y & 0xffff0000U), m[i].w, v[i].w, w[i].w, n);
    *reinterpret_cast<float4*>(a.first + at * kAdamwGroup) = m[i];
    *reinterpret_cast<float4*>(a.second + at * kAdamwGroup) = v[i];
    *reinterpret_cast<float4*>(a.master + at * kAdamwGroup) = w[i];
    *reinterpret_cast<uint2*>(a.weights + at * kAdamwGroup) =
        make_uint2(pack_pair(w[i].x, w[i].y), pack_pair(w[i].z, w[i].w));
  }
}

/// The last elements, fewer than a group.
__global__ void adamw_rest(const AdamwArrays a, const AdamwNumbers n, std::int64_t from, int count) {
  if (static_cast<int>(threadIdx.x) >= count) return;
  const std::int64_t at = from + threadIdx.x;
  float m = a.first[at], v = a.second[at], w = a.master[at];
  adamw_update(__bfloat162float(a.gradient[at]), m, v, w, n);
  a.first[at] = m;
  a.second[at] = v;
  a.master[at] = w;
  a.weights[at] = __float2bfloat16_rn(w);
}

}  // namespace device

namespace {

using namespace device;

}  // namespace

KernelPlan adamw_plan(const Rowwise& s) {
  constexpr std::int64_t kCta = std::int64_t{kAdamwThreads} * kAdamwGroups * kAdamwGroup;
  KernelPlan plan;
  plan.threads = kAdamwThreads;
  plan.ctas = (s.rows * s.cols + kCta - 1) / kCta;
  return plan;
}

void launch_adamw(const Rowwise& s, const AdamwSettings& settings, const AdamwBuffers& b, StreamHandle stream) {
  if (s.kind != RowwiseKind::adamw || s.input != DType::bf16 || s.output != DType::bf16) {
    throw NotModelled("own adamw: gradients and weights in bf16 only");
  }
  const std::int64_t n = s.rows * s.cols, groups = n / kAdamwGroup;
  const AdamwArrays arrays{static_cast<const bf16*>(b.gradient), b.first, b.second, b.master,
                           static_cast<bf16*>(b.weights)};
  const AdamwNumbers numbers = numbers_of(settings);
  const auto to = static_cast<cudaStream_t>(stream);
  if (groups > 0) {
    adamw<<<static_cast<unsigned>(adamw_plan(s).ctas), kAdamwThreads, 0, to>>>(arrays, numbers, groups);
  }
  const int rest = static_cast<int>(n - groups * kAdamwGroup);
  if (rest > 0) adamw_rest<<<1, kAdamwGroup, 0, to>>>(arrays, numbers, groups * kAdamwGroup, rest);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline
