// What DRAM gives where a product's tile reads its operand a piece of each row at a time: rows of a weight matrix lie far apart,
// so that a step of 32 elements of K asks for 64 bytes of each of 256 places, and comes back for the next 64 when the others
// have been asked for.
//
//   nvcc -O3 -std=c++20 -gencode=arch=compute_90a,code=sm_90a tools/dram_pieces.cu -o dram_pieces && ./dram_pieces > FILE.csv
//
// A CTA of 256 threads has 256 rows (or the share of K that `splits` leave it of them) and keeps three steps on their way. One
// line for each size of piece, row pitch, splits and CTAs an SM: bytes read once over the median of launches, cold.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kThreads = 256, kRows = 256, kAhead = 3;

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "dram_pieces: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

__device__ uint4 load(const unsigned char* p) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

/// Neighbouring threads have the 16-byte chunks of one row's piece; a thread has every (kThreads / chunks)-th row.
template <int kPiece>
__global__ void __launch_bounds__(kThreads)
    read_pieces(const unsigned char* x, std::int64_t pitch, int steps, uint4* out) {
  constexpr int kChunks = kPiece / 16, kEach = kRows * kChunks / kThreads;
  const int row = static_cast<int>(threadIdx.x) / kChunks, chunk = static_cast<int>(threadIdx.x) % kChunks;
  const std::int64_t first = std::int64_t{blockIdx.x} * kRows + row;
  const unsigned char* from = x + first * pitch + std::int64_t{blockIdx.y} * steps * kPiece + chunk * 16;
  constexpr int kTurn = kThreads / kChunks;
  uint4 held[kAhead][kEach], sum = make_uint4(0, 0, 0, 0);
  const auto fetch = [&](int step, uint4(&to)[kEach]) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) to[i] = load(from + std::int64_t{i} * kTurn * pitch + std::int64_t{step} * kPiece);
  };
#pragma unroll
  for (int s = 0; s < kAhead; ++s) fetch(s, held[s]);
  for (int step = 0; step < steps; step += kAhead) {
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) sum.x ^= held[s][i].x ^ held[s][i].y ^ held[s][i].z ^ held[s][i].w;
      __syncthreads();
      if (step + s + kAhead < steps) fetch(step + s + kAhead, held[s]);
    }
  }
  if (sum.x == 0x12345678U) *out = sum;
}

template <int kPiece>
void measure(const unsigned char* x, std::size_t bytes, std::int64_t pitch, int splits, int ctas_x, uint4* out) {
  const int steps = static_cast<int>(pitch / splits / kPiece) / kAhead * kAhead;
  const std::size_t one = static_cast<std::size_t>(ctas_x) * kRows * static_cast<std::size_t>(pitch);
  const int sets = static_cast<int>(bytes / one);
  if (steps < kAhead || sets < 2) return;
  std::vector<float> times;
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  for (int i = 0; i < 23; ++i) {
    check(cudaEventRecord(begin), "record");
    read_pieces<kPiece><<<dim3(static_cast<unsigned>(ctas_x), static_cast<unsigned>(splits)), kThreads>>>(
        x + static_cast<std::size_t>(i % sets) * one, pitch, steps, out);
    check(cudaEventRecord(end), "record");
    check(cudaEventSynchronize(end), "launch");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "time");
    if (i >= 3) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  const double read = static_cast<double>(ctas_x) * splits * kRows * steps * kPiece, us = 1e3 * times[times.size() / 2];
  std::printf("%d,%lld,%d,%d,%.0f,%.2f,%.1f\n", kPiece, static_cast<long long>(pitch), splits, ctas_x, read, us,
              read / us * 1e-3);
}

}  // namespace

int main() {
  constexpr std::size_t kBytes = std::size_t{6} << 30;
  unsigned char* x = nullptr;
  uint4* out = nullptr;
  check(cudaMalloc(&x, kBytes), "memory");
  check(cudaMalloc(&out, 16), "memory");
  check(cudaMemset(x, 1, kBytes), "fill");
  std::printf("piece_B,pitch_B,splits,row_groups,bytes,us,GB_per_s\n");
  for (const std::int64_t pitch : {7168, 8192, 10240, 28672}) {
    for (const int splits : {1, 2, 4}) {
      for (const int groups : {33, 66, 132, 264}) {
        measure<64>(x, kBytes, pitch, splits, groups, out);
        measure<128>(x, kBytes, pitch, splits, groups, out);
        measure<256>(x, kBytes, pitch, splits, groups, out);
      }
    }
  }
  return 0;
}
