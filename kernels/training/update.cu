// What follows the gradients: their norm, and AdamW on fp32 gradients.
#include <algorithm>

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/measure.cuh"
#include "kernels/rows/adamw.cuh"
#include "kernels/training/training.hpp"

namespace plumbline {
namespace device {

constexpr int kNormThreads = 512, kNormVecs = 8, kMostNormCtas = 1024;

struct NormScratch {
  double parts[kMostNormCtas];
  unsigned done;
};

/// Each CTA's sum of squares waits in the scratch; the last CTA to come adds them in their order.
__global__ void __launch_bounds__(kNormThreads)
    gradient_norm(const float* x, std::int64_t n, float most, float* norm, NormScratch* scratch) {
  const std::int64_t vectors = n / 4, stride = std::int64_t{gridDim.x} * kNormThreads;
  std::int64_t v = std::int64_t{blockIdx.x} * kNormThreads + threadIdx.x;
  float sums[4] = {};
  const auto take = [&](const float4& a) {
    sums[0] = fmaf(a.x, a.x, sums[0]);
    sums[1] = fmaf(a.y, a.y, sums[1]);
    sums[2] = fmaf(a.z, a.z, sums[2]);
    sums[3] = fmaf(a.w, a.w, sums[3]);
  };
  double mine = 0;
  for (; v + (kNormVecs - 1) * stride < vectors; v += kNormVecs * stride) {
    float4 a[kNormVecs];
#pragma unroll
    for (int i = 0; i < kNormVecs; ++i) a[i] = load_four(x + (v + i * stride) * 4);
#pragma unroll
    for (int i = 0; i < kNormVecs; ++i) take(a[i]);
    mine += static_cast<double>((sums[0] + sums[1]) + (sums[2] + sums[3]));
    sums[0] = sums[1] = sums[2] = sums[3] = 0;
  }
  for (; v < vectors; v += stride) take(load_four(x + v * 4));
  if (blockIdx.x == 0 && vectors * 4 + threadIdx.x < n) {
    const float rest = x[vectors * 4 + threadIdx.x];
    sums[0] = fmaf(rest, rest, sums[0]);
  }
  mine += static_cast<double>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  mine = reduce<kNormThreads>(mine, Add());
  __shared__ bool last;
  if (threadIdx.x == 0) {
    scratch->parts[blockIdx.x] = mine;
    __threadfence();
    last = atomicAdd(&scratch->done, 1U) + 1 == gridDim.x;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  double all = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kNormThreads) all += __ldcg(&scratch->parts[i]);
  all = reduce<kNormThreads>(all, Add());
  if (threadIdx.x != 0) return;
  const double root = sqrt(all);
  norm[0] = static_cast<float>(root);
  norm[1] = fminf(1.0F, static_cast<float>(most / (root + 1e-6)));
  scratch->done = 0;
}

constexpr int kUpdateThreads = 256, kUpdateGroups = 2;

struct AdamwFloatArrays {
  const float* gradient;
  float *first, *second, *master;
  bf16* weights;
  const float *clip, *corrections;
};

__device__ inline AdamwNumbers numbers_now(const AdamwFloatArrays& a, AdamwNumbers n) {
  if (a.clip != nullptr) n.scale *= *a.clip;
  if (a.corrections != nullptr) {
    n.rate = a.corrections[0];
    n.root_correction = a.corrections[1];
  }
  return n;
}

/// As `adamw`: a thread has two groups of 4 neighbouring elements.
__global__ void __launch_bounds__(kUpdateThreads)
    adamw_floats(const AdamwFloatArrays a, const AdamwNumbers settings, std::int64_t groups) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * (kUpdateThreads * kUpdateGroups) + threadIdx.x;
  float4 g[kUpdateGroups], m[kUpdateGroups], v[kUpdateGroups], w[kUpdateGroups];
#pragma unroll
  for (int i = 0; i < kUpdateGroups; ++i) {
    const std::int64_t at = (begin + i * kUpdateThreads) * 4;
    if (at >= groups * 4) break;
    g[i] = load_four(a.gradient + at);
    m[i] = load_four(a.first + at);
    v[i] = load_four(a.second + at);
    w[i] = load_four(a.master + at);
  }
  const AdamwNumbers n = numbers_now(a, settings);
#pragma unroll
  for (int i = 0; i < kUpdateGroups; ++i) {
    const std::int64_t at = (begin + i * kUpdateThreads) * 4;
    if (at >= groups * 4) break;
    adamw_update(g[i].x, m[i].x, v[i].x, w[i].x, n);
    adamw_update(g[i].y, m[i].y, v[i].y, w[i].y, n);
    adamw_update(g[i].z, m[i].z, v[i].z, w[i].z, n);
    adamw_update(g[i].w, m[i].w, v[i].w, w[i].w, n);
    *reinterpret_cast<float4*>(a.first + at) = m[i];
    *reinterpret_cast<float4*>(a.second + at) = v[i];
    *reinterpret_cast<float4*>(a.master + at) = w[i];
    *reinterpret_cast<uint2*>(a.weights + at) = make_uint2(pack_pair(w[i].x, w[i].y), pack_pair(w[i].z, w[i].w));
  }
}

/// The last elements, fewer than a group.
__global__ void adamw_floats_rest(const AdamwFloatArrays a, const AdamwNumbers settings, std::int64_t from, int count) {
  if (static_cast<int>(threadIdx.x) >= count) return;
  const AdamwNumbers n = numbers_now(a, settings);
  const std::int64_t at = from + threadIdx.x;
  float m = a.first[at], v = a.second[at], w = a.master[at];
  adamw_update(a.gradient[at], m, v, w, n);
  a.first[at] = m;
  a.second[at] = v;
  a.master[at] = w;
  a.weights[at] = __float2bfloat16_rn(w);
}

__global__ void adamw_step(double rate, double beta1, double beta2, std::int32_t* step, float* corrections) {
  const std::int32_t now = *step + 1;
  *step = now;
  corrections[0] = static_cast<float>(rate / (1 - pow(beta1, now)));
  corrections[1] = static_cast<float>(1 / sqrt(1 - pow(beta2, now)));
}

__global__ void __launch_bounds__(kUpdateThreads) clear_floats(float* x, std::int64_t n) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * kUpdateThreads + threadIdx.x) * 4;
  if (at + 4 <= n) {
    *reinterpret_cast<float4*>(x + at) = make_float4(0, 0, 0, 0);
  } else {
    for (std::int64_t i = at; i < n; ++i) x[i] = 0;
  }
}

__global__ void widen(const bf16* from, float* to, std::int64_t n) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    to[i] = __bfloat162float(from[i]);
  }
}

}  // namespace device

std::size_t gradient_norm_scratch_bytes() { return sizeof(device::NormScratch); }

void launch_gradient_norm(const float* x, std::int64_t n, double most, float* norm, void* scratch,
                          StreamHandle stream) {
  constexpr std::int64_t kCtasAnSm = 3, kCta = std::int64_t{device::kNormThreads} * 4;
  const std::int64_t ctas = std::clamp<std::int64_t>(
      (n + kCta - 1) / kCta, 1, std::min<std::int64_t>(kCtasAnSm * sm_count(), device::kMostNormCtas));
  device::gradient_norm<<<static_cast<unsigned>(ctas), device::kNormThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, n, static_cast<float>(most), norm, static_cast<device::NormScratch*>(scratch));
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void launch_adamw_floats(std::int64_t n, const AdamwSettings& settings, const AdamwFloats& b, StreamHandle handle) {
  constexpr std::int64_t kCta = std::int64_t{device::kUpdateThreads} * device::kUpdateGroups;
  const std::int64_t groups = n / 4, ctas = (groups + kCta - 1) / kCta;
  if (ctas > 0x7fffffff) throw NotModelled("adamw: our kernel takes up to 2^31 CTAs");
  const device::AdamwFloatArrays arrays{
      b.gradient, b.first, b.second, b.master, static_cast<device::bf16*>(b.weights), b.clip, b.corrections};
  const device::AdamwNumbers numbers = numbers_of(settings);
  auto* stream = static_cast<cudaStream_t>(handle);
  if (groups > 0) {
    device::adamw_floats<<<static_cast<unsigned>(ctas), device::kUpdateThreads, 0, stream>>>(arrays, numbers, groups);
  }
  const int rest = static_cast<int>(n - groups * 4);
  if (rest > 0) device::adamw_floats_rest<<<1, 4, 0, stream>>>(arrays, numbers, groups * 4, rest);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void launch_adamw_step(const AdamwSettings& s, std::int32_t* step, float* corrections, StreamHandle stream) {
  device::adamw_step<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(s.rate, s.beta1, s.beta2, step, corrections);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void launch_clear_floats(float* x, std::int64_t n, StreamHandle stream) {
  constexpr std::int64_t kCta = std::int64_t{device::kUpdateThreads} * 4;
  const std::int64_t ctas = (n + kCta - 1) / kCta;
  if (n < 1 || ctas > 0x7fffffff) throw NotModelled("clear: our kernel takes 1 to 2^41 elements");
  device::clear_floats<<<static_cast<unsigned>(ctas), device::kUpdateThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      x, n);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void launch_widen(const void* from, float* to, std::int64_t n, StreamHandle stream) {
  device::widen<<<2048, 256, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const device::bf16*>(from), to, n);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline
