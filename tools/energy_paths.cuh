// Kernels of tools/energy_paths.cu: each keeps one path busy, or lets warps wait in one way.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/common/hopper.cuh"
#include "kernels/common/mma_sync.cuh"

namespace plumbline::paths {

using namespace hopper;

constexpr int kStages = 8, kChunk = 16384, kReaders = 256;
constexpr std::uint32_t kRows = 128, kRowBytes = 128;  // of a chunk by a tensor map

/// What brings a chunk from global to shared memory.
enum class Way { bulk, pieces, boxes };
/// What the other eight warps of the CTA do: are not there, wait for each chunk, or read it into registers.
enum class Readers { none, waiting, reading };

struct Source {
  const unsigned char* data;
  std::uint32_t chunks;    ///< there are
  std::uint32_t k_chunks;  ///< a row of the matrix is that many chunks wide; 1: chunks are contiguous
  int rounds, pause_ns;
};

__device__ inline bool barrier_try(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t done = 0;
  asm volatile("{ .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p; }"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}
__device__ inline bool barrier_test(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t done = 0;
  asm volatile("{ .reg .pred p;\n mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p; }"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}

/// Chunk `round` of this CTA. Contiguous chunks: the CTAs walk side by side. Of a matrix: a CTA has a block of rows and
/// walks along it, as a product's tile does along K.
struct Place {
  std::uint32_t row_block, k;
};
__device__ inline Place place_of(const Source& s, int round) {
  const std::uint32_t blocks = s.chunks / s.k_chunks, r = static_cast<std::uint32_t>(round);
  return {(blockIdx.x + r / s.k_chunks * gridDim.x) % blocks, r % s.k_chunks};
}

template <Way kWay>
__device__ void fill(const Source& s, const CUtensorMap* map, std::uint32_t to, std::uint32_t barrier, int round) {
  const Place p = place_of(s, round);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == 0) barrier_expect(barrier, kChunk);
  __syncwarp();
  if constexpr (kWay == Way::boxes) {
    if (lane == 0) {
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
          "[%2];" ::"r"(to),
          "l"(map), "r"(barrier), "r"(p.k * 64), "r"(p.row_block * kRows)
          : "memory");
    }
  } else {
    constexpr int kPieces = kWay == Way::bulk ? 1 : 64, kBytes = kChunk / kPieces;  // a lane two pieces of 256 bytes
    for (int i = lane; i < kPieces; i += 32) {
      const std::size_t row = std::size_t{p.row_block} * kPieces + i;
      const unsigned char* from = s.data + (row * s.k_chunks + p.k) * kBytes;
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                       to + i * kBytes),
                   "l"(from), "r"(kBytes), "r"(barrier)
                   : "memory");
    }
  }
}

/// A ring of eight chunks a CTA. The first warp asks, the others take.
template <Way kWay, Readers kDo>
__global__ void __launch_bounds__(32 + kReaders)
    ring_stream(Source s, const __grid_constant__ CUtensorMap map, uint4* sink) {
  extern __shared__ unsigned char raw[];
  __shared__ __align__(8) std::uint64_t full[kStages], empty[kStages];
  const std::uint32_t ring = (shared_address(raw) + 1023) & ~1023U;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(shared_address(&full[i]), 1);
      barrier_init(shared_address(&empty[i]), kReaders / 32);
    }
    barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int r = 0; r < s.rounds; ++r) {
      const int stage = r % kStages;
      if (r >= kStages) {
        const std::uint32_t parity = (r / kStages - 1) & 1;
        barrier_wait(shared_address(kDo == Readers::none ? &full[stage] : &empty[stage]), parity);
      }
      if (s.pause_ns > 0) __nanosleep(s.pause_ns);
      fill<kWay>(s, &map, ring + stage * kChunk, shared_address(&full[stage]), r);
    }
    if (kDo == Readers::none) {
      for (int r = max(0, s.rounds - kStages); r < s.rounds; ++r)
        barrier_wait(shared_address(&full[r % kStages]), (r / kStages) & 1);
    }
    return;
  }
  if (kDo == Readers::none) return;
  uint4 mixed = make_uint4(0, 0, 0, 0);
  const std::uint32_t mine = (threadIdx.x - 32) * 16;
  for (int r = 0; r < s.rounds; ++r) {
    const int stage = r % kStages;
    barrier_wait(shared_address(&full[stage]), (r / kStages) & 1);
    if (kDo == Readers::reading) {
#pragma unroll
      for (int i = 0; i < kChunk / (16 * kReaders); ++i) {
        uint4 v;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "r"(ring + stage * kChunk + mine + i * kReaders * 16));
        mixed = make_uint4(mixed.x ^ v.x, mixed.y ^ v.y, mixed.z ^ v.z, mixed.w ^ v.w);
      }
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(shared_address(&empty[stage]));
  }
  if ((mixed.x ^ mixed.y ^ mixed.z ^ mixed.w) == 0x9e3779b9U) *sink = mixed;
}

/// The same chunks by cp.async of 256 threads, eight groups in flight; nothing reads them.
__global__ void __launch_bounds__(kReaders) cp_async_stream(Source s) {
  extern __shared__ unsigned char raw[];
  const std::uint32_t ring = (shared_address(raw) + 1023) & ~1023U;
  for (int r = 0; r < s.rounds; ++r) {
    const Place p = place_of(s, r);
    const unsigned char* from = s.data + (std::size_t{p.row_block} * s.k_chunks + p.k) * kChunk;
    device::wait_copies<kStages - 1>();
    if (s.pause_ns > 0) __nanosleep(s.pause_ns);
#pragma unroll
    for (int i = 0; i < kChunk / (16 * kReaders); ++i) {
      const unsigned at = (threadIdx.x + i * kReaders) * 16;
      device::copy_async16(ring + r % kStages * kChunk + at, from + at, 16);
    }
    device::commit_copies();
  }
  device::wait_copies<0>();
}

/// The same chunks by loads into registers, past L1; 512 threads, two vectors each.
__global__ void __launch_bounds__(512) load_stream(Source s, uint4* sink) {
  uint4 mixed = make_uint4(0, 0, 0, 0);
  constexpr int kAtOnce = 8;
  for (int r = 0; r < s.rounds; r += kAtOnce / 2) {
    if (s.pause_ns > 0) __nanosleep(s.pause_ns);
    uint4 v[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const Place p = place_of(s, r + i / 2);
      const auto* from = reinterpret_cast<const uint4*>(s.data + std::size_t{p.row_block} * kChunk);
      asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w)
                   : "l"(from + threadIdx.x + i % 2 * 512));
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      mixed = make_uint4(mixed.x ^ v[i].x, mixed.y ^ v[i].y, mixed.z ^ v[i].z, mixed.w ^ v[i].w);
  }
  if ((mixed.x ^ mixed.y ^ mixed.z ^ mixed.w) == 0x9e3779b9U) *sink = mixed;
}

/// Shared memory into registers, 64 KiB over and over, by ld.shared or ldmatrix.
template <bool kMatrices>
__global__ void __launch_bounds__(512) shared_reads(const uint4* data, int rounds, uint4* sink) {
  extern __shared__ uint4 held[];
  for (int i = static_cast<int>(threadIdx.x); i < 4096; i += 512) held[i] = data[i];
  __syncthreads();
  uint4 mixed = make_uint4(0, 0, 0, 0);
  const std::uint32_t base = shared_address(held) + threadIdx.x * 16;
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      std::uint32_t v[4];
      if constexpr (kMatrices) {
        device::load_matrices(v, base + i * 8192);
      } else {
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                     : "r"(base + i * 8192));
      }
      mixed = make_uint4(mixed.x ^ v[0], mixed.y ^ v[1], mixed.z ^ v[2], mixed.w ^ v[3]);
    }
  }
  if ((mixed.x ^ mixed.y ^ mixed.z ^ mixed.w) == 0x9e3779b9U) *sink = mixed;
}

enum class Wait { sleep, clock, try_wait, test_wait, barrier };

/// Warps of every SM that wait in one way and do nothing else.
template <Wait kWait>
__global__ void wait_for(long long clocks) {
  __shared__ __align__(8) std::uint64_t word;
  const std::uint32_t barrier = shared_address(&word);
  if (threadIdx.x == 0) {
    barrier_init(barrier, 1);
    barrier_init_fence();
  }
  __syncthreads();
  if (kWait == Wait::barrier && threadIdx.x >= 32) {
    __syncthreads();
    return;
  }
  for (const long long start = clock64(); clock64() - start < clocks;) {
    if (kWait == Wait::sleep || kWait == Wait::barrier) __nanosleep(20000);
    if (kWait == Wait::try_wait) barrier_try(barrier, 0);
    if (kWait == Wait::test_wait) barrier_test(barrier, 0);
  }
  if (kWait == Wait::barrier) __syncthreads();
}

/// Warms the chip: products by mma.sync of what lies in registers.
__global__ void __launch_bounds__(512) products(const std::uint32_t* data, int rounds, float* sink) {
  std::uint32_t a[4], b[8];
  for (int i = 0; i < 4; ++i) a[i] = data[threadIdx.x * 16 + i];
  for (int i = 0; i < 8; ++i) b[i] = data[threadIdx.x * 16 + 4 + i];
  float c[4][4] = {};
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int i = 0; i < 4; ++i) device::multiply_add<__nv_bfloat16>(c[i], a, b[2 * i], b[2 * i + 1]);
  }
  if (c[0][0] + c[1][1] + c[2][2] + c[3][3] == 12345.0F) *sink = c[0][0];
}

__global__ void fill_normal(std::uint32_t* x, std::size_t n) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t v = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; v < n; v += stride) {
    unsigned long long z = (v + 1) * 0x9e3779b97f4a7c15ULL;  // splitmix64, then Box and Muller
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    z ^= z >> 31;
    const float u = (static_cast<float>(static_cast<unsigned>(z)) + 0.5F) * 0x1p-32F;
    const float w = static_cast<float>(static_cast<unsigned>(z >> 32)) * 0x1p-32F;
    const float radius = sqrtf(-2.0F * logf(u));
    const __nv_bfloat162 pair = __floats2bfloat162_rn(radius * cospif(2.0F * w), radius * sinpif(2.0F * w));
    x[v] = *reinterpret_cast<const std::uint32_t*>(&pair);
  }
}

}  // namespace plumbline::paths
