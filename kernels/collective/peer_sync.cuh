// What the collectives' kernels share: where the ranks' workspaces lie, flags, waits that end, and barriers.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/collective/peer_group.hpp"
#include "kernels/common/cuda_check.hpp"
#include "kernels/common/vector.cuh"

namespace plumbline {

/// One rank's view of the group, a kernel parameter. Addresses of other ranks' memory are their own: unified addressing.
struct Peers {
  int rank = 0, ranks = 0;
  uint4* one_shot[kPeerRanks] = {};          ///< [kOneShotCtas][2][ranks][kOneShotPacks]
  std::uint32_t* arrivals[kPeerRanks] = {};  ///< [kPeerCtas][kPeerRanks]: the last barrier that a peer's CTA came to
  std::uint32_t* one_shot_epochs = nullptr;  ///< [kOneShotCtas], this rank's: launches in which the CTA took part
  std::uint32_t* barrier_epochs = nullptr;   ///< [kPeerCtas], this rank's: barriers that the CTA has passed
  std::uint32_t* fault = nullptr;            ///< this rank's: not 0 once a wait was given up
};

/// The plan's launch of `kernel`.
template <class... Parameters, class... Arguments>
void launch_peer_kernel(void (*kernel)(Parameters...), const PeerPlan& plan, cudaStream_t stream,
                        const Arguments&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(plan.ctas));
  config.blockDim = dim3(static_cast<unsigned>(plan.threads));
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = plan.early ? 1 : 0;
  PLUMBLINE_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

/// The launchers of the two kinds of kernels; the plan is checked.
void launch_one_shot(const Collective& shape, const PeerPlan& plan, const Peers& peers, const PeerBuffers& buffers,
                     cudaStream_t stream);
void launch_two_shot(const Collective& shape, const PeerPlan& plan, const Peers& peers, const PeerBuffers& buffers,
                     cudaStream_t stream);

namespace device {

/// Lets the next launch place its CTAs, then waits until the launch before is complete, where this one was placed early.
__device__ inline void follow_last_launch() {
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

/// 16 bytes at once, not kept by L1; each 8 of them arrive whole.
__device__ inline uint4 load_flagged(const uint4* p) {
  uint4 v;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
__device__ inline void store_flagged(uint4* p, uint4 v) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ inline std::uint32_t load_acquire(const std::uint32_t* p) {
  std::uint32_t v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ inline void store_release(std::uint32_t* p, std::uint32_t v) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ inline void store_relaxed(std::uint32_t* p, std::uint32_t v) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

/// Loads of a peer's buffer behind a barrier: no L1 line of it can be older, and none is wanted.
__device__ inline uint4 load_peer(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}

__device__ inline unsigned long long global_nanoseconds() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

/// A wait's patience: a peer that never comes ends the wait and marks the rank, after which later waits are short.
class Patience {
 public:
  __device__ explicit Patience(std::uint32_t* fault) : fault_(fault) {}
  __device__ bool over() {
    if ((++polls_ & (kLook - 1)) != 0) return false;
    if (*static_cast<volatile std::uint32_t*>(fault_) != 0) return true;
    const unsigned long long now = global_nanoseconds();
    if (began_ == 0) began_ = now;
    if (now - began_ < kLimit_ns) return false;
    atomicExch(fault_, 1U);
    return true;
  }

 private:
  static constexpr unsigned kLook = 2048;                                 // polls between looks at the time
  static constexpr unsigned long long kLimit_ns = 2000ULL * 1000 * 1000;  // far above any skew of launches

  std::uint32_t* fault_;
  unsigned polls_ = 0;
  unsigned long long began_ = 0;
};

/// A barrier of the CTAs with this number on all ranks. at_start: what a rank's earlier kernels wrote was complete before
/// this one began, so that the flag needs no release.
enum class Arrive { at_start, with_writes };
__device__ inline void peer_barrier(const Peers& peers, unsigned cta, std::uint32_t epoch, Arrive how) {
  __syncthreads();
  const int peer = static_cast<int>(threadIdx.x);
  if (peer < peers.ranks && peer != peers.rank) {
    std::uint32_t* theirs = peers.arrivals[peer] + cta * kPeerRanks + peers.rank;
    if (how == Arrive::with_writes) {
      store_release(theirs, epoch);
    } else {
      store_relaxed(theirs, epoch);
    }
    const std::uint32_t* mine = peers.arrivals[peers.rank] + cta * kPeerRanks + peer;
    Patience patience(peers.fault);
    // A peer may be one barrier ahead; the difference is signed so that the count may wrap.
    while (static_cast<std::int32_t>(load_acquire(mine) - epoch) < 0) {
      if (patience.over()) break;
    }
  }
  __syncthreads();
}

}  // namespace device
}  // namespace plumbline
