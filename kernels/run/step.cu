#include "kernels/run/step.hpp"

#include <cuda_fp8.h>

#include "kernels/common/cuda_check.hpp"
#include "kernels/rows/rope.cuh"

namespace plumbline {
namespace device {
namespace {

/// Q goes to rows of its own, K and V to the cache.
template <class E>
struct TurnAndAppend {
  using Element = E;
  static constexpr bool kAll = false;
  E *q, *k, *v;
  const std::int32_t* rows;
  int q_heads, kv_heads, width;

  __device__ E* operator()(std::uint32_t token, std::uint32_t head) const {
    const int h = static_cast<int>(head);
    if (h < q_heads) return q + (std::int64_t{token} * q_heads + h) * width;
    const bool key = h < q_heads + kv_heads;
    const std::int64_t row = std::int64_t{rows[token]} * kv_heads;
    return key ? k + (row + h - q_heads) * width : v + (row + h - q_heads - kv_heads) * width;
  }
  __device__ bool turns(std::uint32_t head) const { return static_cast<int>(head) < q_heads + kv_heads; }
};

/// splitmix64 (Steele, Lea, Flood, OOPSLA 2014), then Box and Muller.
__device__ float2 normal_pair_of(std::uint64_t i) {
  std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  const float u = (static_cast<float>(z >> 40) + 0.5F) * 0x1p-24F;
  const float radius = sqrtf(-2.0F * __logf(u));
  float sine, cosine;
  sincospif(2.0F * static_cast<float>(z & 0xffffffU) * 0x1p-24F, &sine, &cosine);
  return {radius * cosine, radius * sine};
}

__device__ void put(__nv_bfloat162* to, float2 v) { *to = __floats2bfloat162_rn(v.x, v.y); }
__device__ void put(__half2* to, float2 v) { *to = __floats2half2_rn(v.x, v.y); }
__device__ void put(__nv_fp8x2_e4m3* to, float2 v) { *to = __nv_fp8x2_e4m3(v); }

template <class Pair>
__global__ void scaled_normal(Pair* pairs, std::size_t count, float mean, float sigma, std::uint64_t seed) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const float2 v = normal_pair_of(i ^ (seed << 40));
    put(pairs + i, make_float2(fmaf(sigma, v.x, mean), fmaf(sigma, v.y, mean)));
  }
}

}  // namespace
}  // namespace device

namespace {

template <class E>
void launch_rope_append_of(const device::RopeShape& shape, unsigned ctas, const RopeAppend& b, cudaStream_t stream) {
  const auto q_heads = static_cast<int>(b.q_heads), kv_heads = (shape.heads - q_heads) / 2;
  if (q_heads < 1 || kv_heads < 1 || q_heads + 2 * kv_heads != shape.heads) {
    throw NotModelled("rope with cache append: our kernel takes Hq + 2 Hkv heads a token");
  }
  using To = device::TurnAndAppend<E>;
  const To to{static_cast<E*>(b.q), static_cast<E*>(b.k), static_cast<E*>(b.v), b.rows, q_heads, kv_heads,
              2 * shape.half};
  const auto kernel = shape.half % device::kVector == 0 ? device::rope<true, To> : device::rope<false, To>;
  kernel<<<ctas, device::kRopeThreads, 0, stream>>>(static_cast<const E*>(b.qkv), to, b.positions, b.inverse_frequency,
                                                    shape);
}

template <class Pair>
void fill_pairs(void* data, std::size_t bytes, float mean, float sigma, std::uint64_t seed, StreamHandle stream) {
  constexpr unsigned kBlocks = 2048, kThreads = 256;
  device::scaled_normal<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<Pair*>(data), bytes / sizeof(Pair), mean, sigma, seed);
}

}  // namespace

void launch_rope_append(const Rope& s, const RopeAppend& b, StreamHandle handle) {
  if (s.dtype != DType::bf16 && s.dtype != DType::fp16) throw NotModelled("rope: our kernel is for bf16 and fp16");
  const device::RopeShape shape = rope_shape(s);
  const auto ctas = static_cast<unsigned>(rope_plan(s).ctas);
  const auto launch = s.dtype == DType::fp16 ? launch_rope_append_of<__half> : launch_rope_append_of<device::bf16>;
  launch(shape, ctas, b, static_cast<cudaStream_t>(handle));
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void fill_normal(void* data, std::size_t bytes, DType type, float mean, float sigma, std::uint64_t seed,
                 StreamHandle stream) {
  if (bytes < 4) return;
  if (type == DType::fp8) fill_pairs<__nv_fp8x2_e4m3>(data, bytes, mean, sigma, seed, stream);
  else if (type == DType::fp16) fill_pairs<__half2>(data, bytes, mean, sigma, seed, stream);
  else fill_pairs<__nv_bfloat162>(data, bytes, mean, sigma, seed, stream);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline
