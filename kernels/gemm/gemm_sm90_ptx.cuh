// The sm_90a instructions of the GEMM beyond those of hopper.cuh: bulk tensor copies of 3-D boxes, clusters, stmatrix
// (PTX ISA, sections "cp.async.bulk.tensor", "mapa", "stmatrix").
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/common/hopper.cuh"

namespace plumbline::device::sm90 {

using namespace hopper;

/// Arrives on the barrier at the same place in another CTA of the cluster.
__device__ inline void barrier_arrive_at(std::uint32_t barrier, int cta) {
  asm volatile(
      "{ .reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(barrier),
      "r"(cta)
      : "memory");
}

// --- bulk tensor copies: boxes of a 3-D map, innermost coordinate first ----------------------------------------------

/// Global to shared; the box's bytes arrive on `barrier`. Outside of the tensor: zeros, which count too.
__device__ inline void load_box(std::uint32_t to, const CUtensorMap* map, std::uint32_t barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
/// The same into every CTA of `mask`, at the same place, arriving on each one's own barrier.
__device__ inline void load_box_multicast(std::uint32_t to, const CUtensorMap* map, std::uint32_t barrier, int x, int y,
                                          int z, std::uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(mask)
      : "memory");
}
/// Shared to global; what lies outside of the tensor is not written.
__device__ inline void store_box(const CUtensorMap* map, std::uint32_t from, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(from), "r"(x), "r"(y), "r"(z)
               : "memory");
}
/// The same, added to the fp32 that are there, in L2.
__device__ inline void add_box(const CUtensorMap* map, std::uint32_t from, int x, int y, int z) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
      "r"(from), "r"(x), "r"(y), "r"(z)
      : "memory");
}
__device__ inline void store_pair(std::uint32_t to, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(first), "f"(second) : "memory");
}
__device__ inline void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until at most `kPending` of this thread's stores still read shared memory.
template <int kPending>
__device__ inline void store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
/// Orders this thread's writes to shared memory before bulk copies that read them.
__device__ inline void async_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- clusters
// ---------------------------------------------------------------------------------------------------------

__device__ inline int cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// --- 8x8 matrices from accumulator fragments to shared memory --------------------------------------------------------

__device__ inline void store_matrices(std::uint32_t to, const std::uint32_t (&v)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v[0]), "r"(v[1]),
               "r"(v[2]), "r"(v[3])
               : "memory");
}
__device__ inline void store_matrices_transposed(std::uint32_t to, const std::uint32_t (&v)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v[0]), "r"(v[1]),
               "r"(v[2]), "r"(v[3])
               : "memory");
}

}  // namespace plumbline::device::sm90
