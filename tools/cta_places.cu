// On which SM each CTA of a causal grid is placed, and when, where an SM holds two of them (128 threads, 64 KiB of shared memory, nearly
// all registers, as the forward pass of FlashAttention-2 is launched; tile i of a head has i + 1 parts of work), to stdout; and what words
// of local memory take to be stored and to come back, one behind the other, to spills.csv.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(x)                                                   \
  do {                                                             \
    const cudaError_t e = (x);                                     \
    if (e != cudaSuccess) {                                        \
      std::fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); \
      std::exit(1);                                                \
    }                                                              \
  } while (0)

__device__ unsigned long long now() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
__device__ unsigned sm_of() {
  unsigned id;
  asm volatile("mov.u32 %0, %smid;" : "=r"(id));
  return id;
}

constexpr int kLive = 200;

__global__ void __launch_bounds__(128)
    tiles(unsigned* sms, unsigned long long* from, unsigned long long* to, float* out, float b, int rounds) {
  const int cta = static_cast<int>((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);
  const unsigned long long begin = now();
  float a[kLive];
#pragma unroll
  for (int i = 0; i < kLive; ++i) a[i] = b * static_cast<float>(i + static_cast<int>(threadIdx.x));
  for (int step = 0; step < rounds * (static_cast<int>(blockIdx.x) + 1); ++step) {
#pragma unroll
    for (int i = 0; i < kLive; ++i) a[i] = a[i] * b + a[(i + 1) % kLive];
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kLive; ++i) sum += a[i];
  if (sum == 12345.f) out[0] = sum;
  if (threadIdx.x == 0) {
    sms[cta] = sm_of();
    from[cta] = begin;
    to[cta] = now();
  }
}

__global__ void read_all(const float4* p, size_t n, float* out) {
  float s = 0;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<size_t>(gridDim.x) * blockDim.x)
    s += p[i].x;
  if (s == 12345.f) out[0] = s;
}

// stores `words` to local memory, then reads them back one after the other, each behind the one before; three times
__global__ void __launch_bounds__(128) spill(long long* clocks, int words, int* out) {
  extern __shared__ int unused[];
  volatile int local[96];
  int x = static_cast<int>(threadIdx.x);
  long long t[4];
  for (int pass = 0; pass < 2; ++pass) {
    t[pass * 2] = clock64();
    for (int i = 0; i < words; ++i) local[i] = (i + 1) % words;
    t[pass * 2 + 1] = clock64();
    int at = 0;
    for (int i = 0; i < words; ++i) at = local[at];
    x += at;
    if (pass == 0) clocks[blockIdx.x * 8 + 6] = clock64() - t[1];
    else clocks[blockIdx.x * 8 + 7] = clock64() - t[3];
  }
  if (x == -5) out[0] = x + unused[0];
  if (threadIdx.x == 0) {
    clocks[blockIdx.x * 8 + 0] = t[1] - t[0];
    clocks[blockIdx.x * 8 + 1] = t[3] - t[2];
  }
}

int main() {
  const size_t kFlush = 256u << 20;
  float4* big;
  float* out;
  unsigned* sms;
  unsigned long long *from, *to;
  CHECK(cudaMalloc(&big, kFlush));
  CHECK(cudaMemset(big, 0, kFlush));
  CHECK(cudaMalloc(&out, 64));
  const int kMost = 4096;
  CHECK(cudaMalloc(&sms, kMost * 4));
  CHECK(cudaMalloc(&from, kMost * 8));
  CHECK(cudaMalloc(&to, kMost * 8));
  const int kShared = 64 * 1024;
  CHECK(cudaFuncSetAttribute(tiles, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  CHECK(cudaFuncSetAttribute(spill, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, tiles));
  int held = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&held, tiles, 128, kShared));
  std::printf("# registers %d local %zu resident %d\n", attributes.numRegs, attributes.localSizeBytes, held);
  std::printf("grid_x,grid_y,grid_z,behind,call,cta,tile,sm,from_ns,to_ns\n");
  const int grids[][3] = {{16, 1, 8},  {4, 1, 32},  {8, 1, 14},  {8, 1, 20},  {8, 1, 24},
                          {8, 1, 32},  {8, 4, 8},   {4, 1, 40},  {4, 1, 60},  {16, 1, 16},
                          {12, 1, 20}, {16, 1, 24}, {12, 1, 40}, {10, 3, 16}, {5, 1, 64}};
  for (const auto& g : grids) {
    for (int behind = 0; behind < 2; ++behind) {
      for (int call = 0; call < 3; ++call) {
        if (behind) {
          read_all<<<1024, 512>>>(big, kFlush / 16, out);
          CHECK(cudaMemsetAsync(out, 0, 16));
        } else {
          CHECK(cudaDeviceSynchronize());
        }
        tiles<<<dim3(g[0], g[1], g[2]), 128, kShared>>>(sms, from, to, out, 1.0001f, 8);
        CHECK(cudaDeviceSynchronize());
        const int n = g[0] * g[1] * g[2];
        std::vector<unsigned> s(n);
        std::vector<unsigned long long> f(n), t(n);
        CHECK(cudaMemcpy(s.data(), sms, n * 4, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(f.data(), from, n * 8, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(t.data(), to, n * 8, cudaMemcpyDeviceToHost));
        unsigned long long first = f[0];
        for (const auto v : f) first = v < first ? v : first;
        if (call == 0) continue;
        for (int i = 0; i < n; ++i) {
          std::printf("%d,%d,%d,%d,%d,%d,%d,%u,%llu,%llu\n", g[0], g[1], g[2], behind, call, i, i % g[0], s[i],
                      f[i] - first, t[i] - first);
        }
      }
    }
  }
  long long* clocks;
  CHECK(cudaMalloc(&clocks, 1024 * 8 * 8));
  FILE* spills = std::fopen("spills.csv", "w");
  std::fprintf(spills, "ctas,words,behind,call,store_first,load_first,store_second,load_second\n");
  for (const int ctas : {1, 132, 264}) {
    for (const int words : {12, 34, 94}) {
      for (int behind = 0; behind < 2; ++behind) {
        for (int call = 0; call < 3; ++call) {
          if (behind) read_all<<<1024, 512>>>(big, kFlush / 16, out);
          spill<<<ctas, 128, kShared>>>(clocks, words, reinterpret_cast<int*>(out));
          CHECK(cudaDeviceSynchronize());
          std::vector<long long> c(ctas * 8);
          CHECK(cudaMemcpy(c.data(), clocks, ctas * 64, cudaMemcpyDeviceToHost));
          double mean[4] = {};
          const int at[4] = {0, 6, 1, 7};
          for (int i = 0; i < ctas; ++i)
            for (int k = 0; k < 4; ++k) mean[k] += static_cast<double>(c[i * 8 + at[k]]) / ctas;
          std::fprintf(spills, "%d,%d,%d,%d,%.0f,%.0f,%.0f,%.0f\n", ctas, words, behind, call, mean[0], mean[1],
                       mean[2], mean[3]);
        }
      }
    }
  }
  std::fclose(spills);
  return 0;
}
