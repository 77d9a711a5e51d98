// Device and host helpers that the memory probes share.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "kernels/common/measure.cuh"

namespace plumbline {
namespace device {

constexpr int kThreads = 256;

/// Keeps a value alive without a store that would be counted.
__device__ inline void consume(uint4 v, uint4* sink) {
  if ((v.x ^ v.y ^ v.z ^ v.w) == 0x9e3779b9U) *sink = v;  // about never, for random data
}

__device__ inline uint4 merge(uint4 a, uint4 b) { return make_uint4(a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w); }

template <int kVecs>
__global__ void __launch_bounds__(kThreads) stream_read(const uint4* x, std::size_t n, uint4* sink) {
  const std::size_t stride = std::size_t{gridDim.x} * kThreads;
  uint4 mixed = make_uint4(0, 0, 0, 0);
  for (std::size_t v = std::size_t{blockIdx.x} * kThreads * kVecs + threadIdx.x; v < n; v += stride * kVecs) {
    uint4 a[kVecs];
#pragma unroll
    for (int i = 0; i < kVecs; ++i) a[i] = __ldcs(x + v + i * kThreads);
#pragma unroll
    for (int i = 0; i < kVecs; ++i) mixed = merge(mixed, a[i]);
  }
  consume(mixed, sink);
}

/// Reads the first `n` vectors `passes` times; each pass starts `shift` CTAs further, so that an SM meets other lines.
/// `ld.cg` keeps L1 out.
template <int kVecs>
__global__ void __launch_bounds__(512) read_l2(const uint4* x, std::size_t n, int passes, unsigned shift, uint4* sink) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  uint4 mixed = make_uint4(0, 0, 0, 0);
  for (int pass = 0; pass < passes; ++pass) {
    const unsigned block = (blockIdx.x + static_cast<unsigned>(pass) * shift) % gridDim.x;
    for (std::size_t v = std::size_t{block} * blockDim.x + threadIdx.x; v < n; v += stride * kVecs) {
      uint4 a[kVecs];
#pragma unroll
      for (int i = 0; i < kVecs; ++i) a[i] = v + i * stride < n ? __ldcg(x + v + i * stride) : mixed;
#pragma unroll
      for (int i = 0; i < kVecs; ++i) {
        mixed.x ^= a[i].x;
        mixed.y += a[i].y;
        mixed.z ^= a[i].z;
        mixed.w += a[i].w;
      }
    }
  }
  consume(mixed, sink);
}

/// Bits that no pattern of DRAM or of data compression can favour.
static __global__ void fill_random(uint4* x, std::size_t n, unsigned seed) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t v = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; v < n; v += stride) {
    unsigned long long s = (v + 1) * 0x9e3779b97f4a7c15ULL ^ seed;  // splitmix64
    unsigned w[4];
    for (unsigned& word : w) {
      s += 0x9e3779b97f4a7c15ULL;
      unsigned long long z = (s ^ (s >> 30)) * 0xbf58476d1ce4e5b9ULL;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
      word = static_cast<unsigned>(z >> 32);
    }
    x[v] = make_uint4(w[0], w[1], w[2], w[3]);
  }
}

}  // namespace device

inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kStreamBytes = 2048 * kMiB;  // of each stream: 34 times the L2 of an H200

inline void fill(const DeviceBuffer& buffer, cudaStream_t stream, unsigned seed) {
  device::fill_random<<<1024, 256, 0, stream>>>(buffer.as<uint4>(), buffer.bytes() / sizeof(uint4), seed);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

inline Record record(std::string name, std::string setting, std::vector<double> samples) {
  return {std::move(name), std::move(setting), spread(std::move(samples))};
}

}  // namespace plumbline
