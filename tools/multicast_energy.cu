// What the way to an SM takes of the energy of a byte from L2: bulk copies into shared memory, each CTA for itself, or
// each of a cluster of two one half for both (multicast). Prints bytes a second that arrive in SMs, and watts by NVML's
// energy counter, at five rates. What an arriving byte takes is the slope of watts over bytes.
//
//   nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a tools/multicast_energy.cu -o multicast_energy -ldl
//   ./multicast_energy [SECONDS a rate, 1.6]
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CHECK(call)                                               \
  do {                                                            \
    const cudaError_t error_ = (call);                            \
    if (error_ != cudaSuccess) {                                  \
      std::printf("%s: %s\n", #call, cudaGetErrorString(error_)); \
      std::exit(1);                                               \
    }                                                             \
  } while (0)

constexpr int kStages = 8;
constexpr int kChunk = 16384;

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
__device__ inline void wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{ .reg .pred done;\n again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n @done bra over;\n bra "
      "again;\n over: }" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
__device__ inline int rank_of() {
  std::uint32_t r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return static_cast<int>(r);
}
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// One thread a CTA asks, waits and releases; the others sleep. `pause`: clocks between chunks, so that rates can be set.
template <bool kMulticast>
__global__ void __launch_bounds__(64) stream(const unsigned char* data, std::uint32_t chunks, int rounds, int pause) {
  extern __shared__ __align__(1024) unsigned char ring[];
  __shared__ __align__(8) std::uint64_t full[kStages], empty[kStages];
  const int rank = rank_of();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[i])));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(shared_address(&empty[i])));
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  cluster_sync();
  if (threadIdx.x == 0) {
    const std::uint32_t pair = blockIdx.x / 2;
    auto ask = [&](int round) {
      const int stage = round % kStages;
      const std::uint32_t barrier = shared_address(&full[stage]);
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(kChunk) : "memory");
      if (kMulticast) {
        const std::uint32_t chunk = (pair * 7919u + static_cast<std::uint32_t>(round) * 104729u) % chunks;
        const unsigned char* from = data + std::size_t{chunk} * kChunk + rank * (kChunk / 2);
        const std::uint32_t to = shared_address(ring) + stage * kChunk + rank * (kChunk / 2);
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, "
            "[%3], %4;" ::"r"(to),
            "l"(from), "r"(kChunk / 2), "r"(barrier), "h"(static_cast<std::uint16_t>(3))
            : "memory");
      } else {
        const std::uint32_t chunk = (blockIdx.x * 7919u + static_cast<std::uint32_t>(round) * 104729u) % chunks;
        const unsigned char* from = data + std::size_t{chunk} * kChunk;
        const std::uint32_t to = shared_address(ring) + stage * kChunk;
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
            "l"(from), "r"(kChunk), "r"(barrier)
            : "memory");
      }
    };
    for (int r = 0; r < kStages && r < rounds; ++r) ask(r);
    for (int r = 0; r < rounds; ++r) {
      const int stage = r % kStages;
      const std::uint32_t parity = (r / kStages) & 1;
      wait(shared_address(&full[stage]), parity);
      if (pause > 0) {
        const long long until = clock64() + pause;
        while (clock64() < until) {
        }
      }
      if (r + kStages < rounds) {
        const std::uint32_t barrier = shared_address(&empty[stage]);
        for (int peer = 0; peer < 2; ++peer) {
          asm volatile(
              "{ .reg .b32 remote;\n mapa.shared::cluster.u32 remote, %0, %1;\n "
              "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote]; }" ::"r"(barrier),
              "r"(peer)
              : "memory");
        }
        wait(barrier, parity);
        ask(r + kStages);
      }
    }
  }
  cluster_sync();
}

using Init = int (*)();
using Handle = int (*)(unsigned, void**);
using Energy = int (*)(void*, unsigned long long*);
using Clock = int (*)(void*, int, unsigned*);

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1.6;
  void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (nvml == nullptr) {
    std::printf("no NVML\n");
    return 1;
  }
  reinterpret_cast<Init>(dlsym(nvml, "nvmlInit_v2"))();
  void* device = nullptr;
  reinterpret_cast<Handle>(dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2"))(0, &device);
  const auto energy_call = reinterpret_cast<Energy>(dlsym(nvml, "nvmlDeviceGetTotalEnergyConsumption"));
  const auto clock_call = reinterpret_cast<Clock>(dlsym(nvml, "nvmlDeviceGetClockInfo"));
  auto energy = [&] {
    unsigned long long e = 0;
    energy_call(device, &e);
    return static_cast<double>(e) * 1e-3;
  };

  constexpr std::uint32_t kChunks = 1280;  // 20 MiB: L2 holds them beside anything else
  std::vector<__nv_bfloat16> host(std::size_t{kChunks} * kChunk / 2);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (auto& x : host) x = __float2bfloat16(normal(random));
  unsigned char* data = nullptr;
  CHECK(cudaMalloc(&data, std::size_t{kChunks} * kChunk));
  CHECK(cudaMemcpy(data, host.data(), std::size_t{kChunks} * kChunk, cudaMemcpyHostToDevice));

  for (int multicast = 0; multicast < 2; ++multicast) {
    const auto kernel = multicast ? stream<true> : stream<false>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kStages * kChunk));
    for (const int pause : {0, 300, 600, 1200, 20000}) {
      cudaLaunchAttribute cluster{};
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim = {2, 1, 1};
      cudaLaunchConfig_t config{};
      config.gridDim = 132;
      config.blockDim = 64;
      config.dynamicSmemBytes = kStages * kChunk;
      config.attrs = &cluster;
      config.numAttrs = 1;
      const int rounds = pause >= 20000 ? 1000 : 20000;
      auto go = [&] {
        CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<const unsigned char*>(data), kChunks, rounds, pause));
      };
      go();
      CHECK(cudaDeviceSynchronize());
      const auto now = [] { return std::chrono::steady_clock::now(); };
      const auto since = [&](auto t) { return std::chrono::duration<double>(now() - t).count(); };
      for (auto t = now(); since(t) < seconds / 4;) {
        go();
        CHECK(cudaDeviceSynchronize());
      }
      double before = energy();
      while (energy() == before) {
        go();
        CHECK(cudaDeviceSynchronize());
      }
      before = energy();
      const auto began = now();
      long launches = 0;
      unsigned mhz = 0;
      while (since(began) < seconds * 3 / 4) {
        for (int i = 0; i < 4; ++i) go();
        CHECK(cudaDeviceSynchronize());
        launches += 4;
      }
      const double spent = energy() - before, time = since(began);
      clock_call(device, 1, &mhz);
      const double arrived = static_cast<double>(launches) * rounds * 132 * kChunk;
      std::printf(
          "{\"multicast\": %d, \"pause_clk\": %d, \"arrived_TB_per_s\": %.3f, \"watts\": %.1f, \"sm_MHz\": %u, "
          "\"seconds\": %.2f}\n",
          multicast, pause, arrived / time / 1e12, spent / time, mhz, time);
      std::fflush(stdout);
    }
  }
  return 0;
}
