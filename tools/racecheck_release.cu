// What compute-sanitizer's racecheck makes of a bulk copy's place in shared memory that is used again: one thread asks for the
// copy (`cp.async.bulk` with an mbarrier), all wait for the barrier's phase and read, and say that they have read by a second
// barrier, for which the asking thread waits before the next copy.
//
//   nvcc -O3 -gencode=arch=compute_90a,code=sm_90a tools/racecheck_release.cu -o racecheck_release
//   compute-sanitizer --tool racecheck ./racecheck_release each    # every thread arrives at the second barrier
//   compute-sanitizer --tool racecheck ./racecheck_release warp    # lane 0 of each warp does, behind __syncwarp
//
// Both are ordered by the memory model (__syncwarp orders a warp's accesses, the arrival releases them; our kernels and the
// vendor's templates do the latter); racecheck follows the first alone.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

constexpr int kThreads = 256, kTurns = 4, kBytes = kThreads * sizeof(float);

__device__ void wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{ .reg .pred done;\n again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n @!done bra again; }" ::
          "r"(barrier),
      "r"(parity)
      : "memory");
}

__device__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

template <bool kByWarp>
__global__ void read_again(const float* from, float* to) {
  __shared__ __align__(128) float data[kThreads];
  __shared__ __align__(8) std::uint64_t full_barrier, empty_barrier;
  const auto place = static_cast<std::uint32_t>(__cvta_generic_to_shared(data));
  const auto full = static_cast<std::uint32_t>(__cvta_generic_to_shared(&full_barrier));
  const auto empty = static_cast<std::uint32_t>(__cvta_generic_to_shared(&empty_barrier));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty), "r"(kByWarp ? kThreads / 32 : kThreads));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  for (int turn = 0; turn < kTurns; ++turn) {
    if (threadIdx.x == 0) {
      if (turn > 0) wait(empty, (turn - 1) & 1);
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(kBytes) : "memory");
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(place),
          "l"(from + kThreads * turn), "r"(kBytes), "r"(full)
          : "memory");
    }
    wait(full, turn & 1);
    to[kThreads * turn + threadIdx.x] = data[(threadIdx.x + 1) % kThreads];
    if (kByWarp) {
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(empty);
    } else {
      arrive(empty);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool warp = argc == 2 && std::strcmp(argv[1], "warp") == 0;
  if (argc != 2 || (!warp && std::strcmp(argv[1], "each") != 0)) {
    std::fprintf(stderr, "usage: racecheck_release each|warp\n");
    return 2;
  }
  constexpr int kCount = kThreads * kTurns;
  std::vector<float> sent(kCount), found(kCount);
  for (int i = 0; i < kCount; ++i) sent[i] = static_cast<float>(i);
  float *from = nullptr, *to = nullptr;
  cudaMalloc(&from, kCount * sizeof(float));
  cudaMalloc(&to, kCount * sizeof(float));
  cudaMemcpy(from, sent.data(), kCount * sizeof(float), cudaMemcpyHostToDevice);
  if (warp) {
    read_again<true><<<1, kThreads>>>(from, to);
  } else {
    read_again<false><<<1, kThreads>>>(from, to);
  }
  const cudaError_t status = cudaMemcpy(found.data(), to, kCount * sizeof(float), cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < kCount; ++i) wrong += found[i] != sent[i / kThreads * kThreads + (i + 1) % kThreads];
  std::printf("%s: %s, %d of %d wrong\n", argv[1], cudaGetErrorString(status), wrong, kCount);
  return status != cudaSuccess || wrong > 0;
}
