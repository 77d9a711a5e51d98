// The instructions that paged decode is made of, beyond hopper.cuh: tensor-map loads, ldmatrix, mma.sync m16n8k16 (PTX
// ISA, sections "cp.async.bulk.tensor", "ldmatrix", "mma").
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/common/hopper.cuh"
#include "kernels/common/mma_sync.cuh"

namespace plumbline::decode {

using hopper::barrier_arrive;
using hopper::barrier_expect;
using hopper::barrier_init;
using hopper::barrier_init_fence;
using hopper::prefetch_map;
using hopper::shared_address;
/// As hopper::barrier_wait, whose spin compiles to other code here than the one that was measured.
__device__ inline void barrier_wait(std::uint32_t barrier, unsigned parity) {
  std::uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}

/// A cache policy for data that is read once.
__device__ inline std::uint64_t evict_first() {
  std::uint64_t policy = 0;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
/// One box of a tensor map of four dimensions to shared memory; its bytes are counted at `barrier`.
__device__ inline void load_box(std::uint32_t to, const CUtensorMap* map, std::uint32_t barrier, int c0, int c1, int c2,
                                int c3, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, "
      "%4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
      : "memory");
}

/// Four 8 x 8 matrices of 16-bit values, a row from the address of each lane.
__device__ inline void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_matrices_transposed(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// 2^x; 0 for minus infinity.
__device__ inline float exp2_fast(float x) {
  float y = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

using plumbline::device::multiply_add;
using plumbline::device::pack_two;

}  // namespace plumbline::decode
