// What a step of our products of single elements takes (rows of K of an odd number of elements, kernels/gemm/gemm_portable.cuh):
// launches of given tiles, so that rows of a tile, CTAs that share an operand and CTAs of an SM vary one by one.
//
//   nvcc -O3 -std=c++20 -I. -gencode=arch=compute_90a,code=sm_90a tools/single_turns.cu build/libplumbline_kernels.a \
//       build/libplumbline_ops.a build/libplumbline_arch.a -o single_turns
//   ./single_turns > single_turns.csv
//
// `cold`: every launch reads operands that nobody has read for a gigabyte; else the same ones each time, from L2. `mhz`: cycles of
// an SM from before the launches to behind them, by the device's timer.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/gemm/gemm_portable.hpp"

namespace {

using namespace plumbline;

constexpr std::int64_t kPool = std::int64_t{1} << 30, kWarm = std::int64_t{20} << 20;
constexpr int kRepeats = 3, kLaunches = 12, kSms = 1024;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(4);
}

struct Stamp {
  unsigned long long cycles, ns;
};

__global__ void stamp(Stamp* to) {
  unsigned sm;
  unsigned long long ns;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  to[sm] = {static_cast<unsigned long long>(clock64()), ns};
}

/// bf16 about 1, of both signs.
__global__ void fill(std::uint32_t* words, std::int64_t count) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += std::int64_t{gridDim.x} * blockDim.x) {
    std::uint64_t x = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ULL;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9ULL;
    words[i] = (static_cast<std::uint32_t>(x >> 32) & 0x80FF80FFU) | 0x3F003F00U;
  }
}

struct Bench {
  char* pool = nullptr;
  void* y = nullptr;
  Stamp* stamps = nullptr;
  cudaEvent_t begin{}, end{};
  std::int64_t at = 0;

  Bench() {
    check(cudaMalloc(&pool, kPool), "pool");
    check(cudaMalloc(&y, std::int64_t{64} << 20), "y");
    check(cudaMalloc(&stamps, 2 * kSms * sizeof(Stamp)), "stamps");
    fill<<<1024, 256>>>(reinterpret_cast<std::uint32_t*>(pool), kPool / 4);
    check(cudaEventCreate(&begin), "event");
    check(cudaEventCreate(&end), "event");
  }

  double clock_mhz() const {
    std::vector<Stamp> s(2 * kSms);
    check(cudaMemcpy(s.data(), stamps, s.size() * sizeof(Stamp), cudaMemcpyDeviceToHost), "stamps");
    std::vector<double> all;
    for (int i = 0; i < kSms; ++i) {
      if (s[i].ns > 0 && s[kSms + i].ns > s[i].ns)
        all.push_back(1e3 * static_cast<double>(s[kSms + i].cycles - s[i].cycles) / static_cast<double>(s[kSms + i].ns - s[i].ns));
    }
    std::sort(all.begin(), all.end());
    return all.empty() ? 0 : all[all.size() / 2];
  }

  void run(const Gemm& shape, const GemmPlan& plan, bool cold) {
    const std::int64_t x = (shape.m * shape.k * 2 + 511) / 512 * 512, w = (shape.n * shape.k * 2 + 511) / 512 * 512;
    if (x + w > (cold ? kPool : kWarm)) return;
    std::vector<double> times;
    double mhz = 0;
    for (int r = 0; r < kRepeats; ++r) {
      for (int i = -1; i < kLaunches; ++i) {
        if (i == 0) {
          stamp<<<264, 32>>>(stamps);
          check(cudaEventRecord(begin), "record");
        }
        if (cold) at = at + 2 * (x + w) > kPool ? 0 : at + x + w;
        char* from = pool + (cold ? at : 0);
        launch_gemm_portable(shape, plan, {from, from + x, y, nullptr, 1}, nullptr);
      }
      check(cudaEventRecord(end), "record");
      stamp<<<264, 32>>>(stamps + kSms);
      check(cudaEventSynchronize(end), "wait");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, begin, end), "elapsed");
      times.push_back(1e3 * static_cast<double>(ms) / kLaunches);
      mhz = clock_mhz();
    }
    std::sort(times.begin(), times.end());
    std::printf("%ldx%ldx%ld,%d,%ld,%ld,%ld,%d,%.3f,%.3f,%.0f\n", plan.tile_m, plan.tile_n, plan.tile_k, plan.swapped, shape.m,
                shape.n, shape.k, cold, times[kRepeats / 2], times[0], mhz);
  }

  void run(std::int64_t m, std::int64_t n, std::int64_t k, const GemmPlan& plan) {
    const Gemm shape{m, n, k, 1, {}, false};
    if (const char* refusal = gemm_portable_refusal(shape, plan)) {
      std::fprintf(stderr, "%s\n", refusal);
      std::exit(1);
    }
    for (const bool cold : {false, true}) run(shape, plan, cold);
  }
};

GemmPlan plan_of(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t stages, bool swapped) {
  GemmPlan p;
  p.tile_m = m, p.tile_n = n, p.tile_k = k, p.stages = stages;
  p.swapped = swapped;
  p.engine = GemmEngine::mma_sync;
  return p;
}

}  // namespace

int main() {
  constexpr std::int64_t kLong = 6401;
  Bench bench;
  std::printf("tile,swapped,M,N,K,cold,median_us,least_us,mhz\n");
  for (const GemmPlan& p : {plan_of(64, 16, 64, 6, false), plan_of(16, 64, 64, 6, true), plan_of(64, 64, 64, 4, false),
                            plan_of(128, 64, 64, 3, false), plan_of(128, 128, 32, 4, false), plan_of(128, 256, 32, 4, false),
                            plan_of(256, 128, 32, 4, true)}) {
    for (const std::int64_t rows : {std::int64_t{1}, p.tile_m / 4, p.tile_m / 2, p.tile_m}) {
      for (const std::int64_t tiles : {1, 2, 8, 33, 132, 264, 396}) bench.run(rows, tiles * p.tile_n, kLong, p);
    }
    // both operands shared, and all rows there
    for (const std::int64_t rows : {2, 4, 11}) {
      for (const std::int64_t tiles : {2, 12, 24, 36}) bench.run(rows * p.tile_m, tiles * p.tile_n, kLong, p);
    }
    // few steps
    for (const std::int64_t k : {33, 65, 81, 97, 127, 129, 193, 255, 383, 511, 1023, 2047}) {
      for (const std::int64_t tiles : {4, 11}) bench.run(12 * p.tile_m, tiles * p.tile_n, k, p);
    }
    std::fflush(stdout);
  }
  check(cudaGetLastError(), "launch");
}
