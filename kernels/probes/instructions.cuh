// One kernel for all instruction probes: some warps repeat one instruction, and beside them, when asked, another warp
// fills shared memory from L2 by bulk copies. Everything is counted in clocks of the SM it ran on, so that no clock
// setting or power limit is in the numbers.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/attention/decode_ptx.cuh"
#include "kernels/common/mma_sync.cuh"
#include "kernels/probes/wgmma.cuh"

namespace plumbline::device {

constexpr int kOperandBytes = 64 * 1024;                // random data that instructions read
constexpr int kRingBytes = 64 * 1024, kMostSlots = 32;  // of fills in flight

struct PortSample {
  long long clocks = 0;       ///< from the first start to the last end of the repeating warps
  long long fill_clocks = 0;  ///< of the filling warp
  long long fill_bytes = 0;
};

__device__ inline void bulk_load(std::uint32_t to, const void* from, unsigned bytes, std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

/// A warp keeps `slots` (even, at most 32) bulk loads in flight, together kRingBytes, until all `warps` have said that
/// they are done. Each lane has a slot; half of them are refilled at a time. `window`: bytes to walk over.
__device__ inline void fill_shared(std::uint32_t ring, std::uint32_t barriers, const unsigned char* data,
                                   std::size_t window, int slots, const volatile int* done, int warps,
                                   PortSample* sample) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const unsigned slot_bytes = kRingBytes / static_cast<unsigned>(slots);
  const std::uint32_t barrier = barriers + 8 * lane, to = ring + static_cast<unsigned>(lane) * slot_bytes;
  std::size_t at = (std::size_t{blockIdx.x} * 37 * kRingBytes + static_cast<unsigned>(lane) * slot_bytes) % window;
  const auto issue = [&] {
    hopper::barrier_expect(barrier, slot_bytes);
    bulk_load(to, data + at, slot_bytes, barrier);
    at = at + kRingBytes < window ? at + kRingBytes : at + kRingBytes - window;
  };
  const long long start = clock64();
  if (lane < slots) issue();
  long long filled = 0;
  unsigned parity = 0;
  for (bool more = true; more; parity ^= 1) {
    more = *done < warps;
    more = __any_sync(~0U, more);
    for (int half = 0; half < 2; ++half) {
      if (lane / (slots / 2) == half) {
        hopper::barrier_wait(barrier, parity);
        ++filled;
        if (more) issue();
      }
      __syncwarp();
    }
  }
  filled = __reduce_add_sync(~0U, static_cast<unsigned>(filled));
  if (lane == 0) {
    sample->fill_clocks = clock64() - start;
    sample->fill_bytes = filled * slot_bytes;
  }
}

/// `fill_slots` 0: no fills. Body: kThreads repeating threads, `run(operands, iterations)` returns anything that
/// depends on all of its work.
template <class Body>
__global__ void __launch_bounds__(Body::kThreads + 32, 1)
    repeat(const unsigned char* data, std::size_t window, int iterations, int fill_slots, PortSample* samples,
           int* sink) {
  extern __shared__ unsigned char raw[];
  __shared__ std::uint64_t barriers[kMostSlots];
  __shared__ int done;
  __shared__ long long first, last;
  constexpr int kWarps = Body::kThreads / 32;
  const std::uint32_t start = hopper::shared_address(raw), operands = (start + 1023) / 1024 * 1024;
  auto* to = reinterpret_cast<uint4*>(raw + (operands - start));
  for (int i = static_cast<int>(threadIdx.x); i < kOperandBytes / 16; i += static_cast<int>(blockDim.x)) {
    to[i] = reinterpret_cast<const uint4*>(data)[i];
  }
  if (threadIdx.x == 0) {
    for (std::uint64_t& b : barriers) hopper::barrier_init(hopper::shared_address(&b), 1);
    hopper::barrier_init_fence();
    done = 0;
    first = 0x7fffffffffffffffLL;
    last = 0;
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // wgmma reads what plain stores wrote
  __syncthreads();
  PortSample* sample = samples + blockIdx.x;
  if (threadIdx.x >= Body::kThreads) {
    if (fill_slots > 0) {
      fill_shared(operands + kOperandBytes, hopper::shared_address(barriers), data, window, fill_slots, &done, kWarps,
                  sample);
    }
  } else {
    const long long begin = clock64();
    const int result = Body::run(operands, iterations);
    const long long end = clock64();
    if (result == 0x12345678) *sink = result;  // about never
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      atomicMin(&first, begin);
      atomicMax(&last, end);
      __threadfence_block();
      atomicAdd(&done, 1);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) sample->clocks = last - first;
}

/// kGroups warpgroups, each with 64 rows of A of its own, all with the same N columns of B; 4 steps of K an iteration.
template <TensorKind kKind, int kN, int kGroups>
struct TensorBody {
  static constexpr int kThreads = 128 * kGroups;
  static constexpr double kPerIteration = 4.0 * kGroups * 2.0 * 64 * kN * tensor_k(kKind);  // FLOP
  static __device__ int run(std::uint32_t operands, int iterations) {
    using W = Wgmma<kKind, kN>;
    typename W::Value d[kN / 2] = {};
    const std::uint64_t b = operand_descriptor(operands);
    const std::uint64_t a = operand_descriptor(operands + 32 * 1024 + threadIdx.x / 128 * 8192);
    std::uint32_t held[4];
    for (int i = 0; i < 4; ++i) held[i] = 0x3f80bf00U + threadIdx.x * 0x00070003U + static_cast<unsigned>(i);
    for (int i = 0; i < iterations; ++i) {
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < 4; ++k) W::run(d, held, a + 2 * k, b + 2 * k);
      wgmma_commit();
      wgmma_wait<1>();
    }
    wgmma_wait<0>();
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) sum += static_cast<float>(d[i]);
    return __float_as_int(sum);
  }
};

/// mma.sync m16n8k16 bf16 on registers, 8 independent accumulators a warp.
template <int kWarps>
struct WarpTensorBody {
  static constexpr int kThreads = 32 * kWarps;
  static constexpr double kPerIteration = 8.0 * kWarps * 2.0 * 16 * 8 * 16;
  static __device__ int run(std::uint32_t operands, int iterations) {
    float d[8][4] = {};
    std::uint32_t a[4], b[4];
    decode::load_matrices(a, operands + threadIdx.x % 32 * 16);
    decode::load_matrices(b, operands + 4096 + threadIdx.x % 32 * 16);
    for (int i = 0; i < iterations; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) multiply_add<__nv_bfloat16>(d[j], a, b[j % 2], b[2 + j % 2]);
    }
    float sum = 0;
    for (const auto& row : d) sum += row[0] + row[1] + row[2] + row[3];
    return __float_as_int(sum);
  }
};

/// 16 bytes a lane without bank conflicts: plain vector loads, or ldmatrix.
template <int kWarps, bool kMatrices>
struct SharedReadBody {
  static constexpr int kThreads = 32 * kWarps;
  static constexpr double kPerIteration = 8.0 * kThreads * 16;  // bytes
  static __device__ int run(std::uint32_t operands, int iterations) {
    std::uint32_t mixed = 0;
    for (int i = 0; i < iterations; ++i) {
      // moves, or the loads would be taken out of the loop
      const std::uint32_t at = operands + (threadIdx.x + static_cast<unsigned>(i) * 32) * 16 % (kOperandBytes / 2);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        std::uint32_t r[4];
        if constexpr (kMatrices) {
          decode::load_matrices(r, at + j * 4096);
        } else {
          asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                       : "r"(at + j * 4096));
        }
        mixed ^= r[0] ^ r[1] ^ r[2] ^ r[3];
      }
    }
    return static_cast<int>(mixed);
  }
};

enum class LaneOp { fma, exp2, convert };

/// Independent chains of one instruction: FP32 FMA, ex2.approx, or the packed conversion of two fp32 to bf16.
template <LaneOp kOp, int kWarps>
struct LaneBody {
  static constexpr int kChains = 8, kRepeats = 16;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr double kPerIteration = double(kChains) * kRepeats * kThreads;  // instructions' lanes
  static __device__ int run(std::uint32_t operands, int iterations) {
    float x[kChains], y = 0.75F + static_cast<float>(threadIdx.x) * 1e-3F;
    for (int j = 0; j < kChains; ++j) x[j] = static_cast<float>(operands % 97) * 0.01F + static_cast<float>(j);
    for (int i = 0; i < iterations; ++i) {
#pragma unroll
      for (int k = 0; k < kRepeats; ++k) {
#pragma unroll
        for (int j = 0; j < kChains; ++j) {
          if constexpr (kOp == LaneOp::fma) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x[j]) : "f"(y));
          if constexpr (kOp == LaneOp::exp2) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[j]));
          if constexpr (kOp == LaneOp::convert) {
            std::uint32_t pair = 0;
            asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x[j]), "f"(y));
            x[j] = __uint_as_float(pair);
          }
        }
      }
    }
    float sum = 0;
    for (const float v : x) sum += v;
    return __float_as_int(sum);
  }
};

/// Does nothing for 64 clocks an iteration: what fills reach alone.
struct IdleBody {
  static constexpr int kThreads = 32;
  static constexpr double kPerIteration = 0;
  static __device__ int run(std::uint32_t, int iterations) {
    const long long start = clock64();
    while (clock64() - start < 64LL * iterations) __nanosleep(200);
    return 0;
  }
};

}  // namespace plumbline::device
