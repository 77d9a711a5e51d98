// What rows of a box outside its tensor cost: rings of six steps that tensor maps fill, on one SM each. A step asks for a box of
// 128 bytes of `box` rows, of which the tensor has `rows`, and for one of `columns` whole rows of the CTA's own; nothing is
// multiplied. `tensors`: CTAs share so many tensors of their first box, each with a line of its own in L2.
//
//   nvcc -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a tools/rows_outside.cu -o rows_outside
//   ./rows_outside > outside.csv
//
// A last tile of a product is such a box: 129 rows in tiles of 128 leave 127 outside (model/stacks/common/gemm_tiles.hpp).
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kStages = 6, kRowBytes = 128, kK = 16384, kSteps = kK / kRowBytes, kReaders = 128, kMostTensors = 128;
constexpr int kColumns = 20000, kRepeats = 4;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(4);
}

__device__ std::uint32_t place(const void* shared) { return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)); }

__device__ void wait(const std::uint64_t* barrier, std::uint32_t parity) {
  asm volatile(
      "{ .reg .pred done;\n again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n @!done bra again; }" ::
          "r"(place(barrier)),
      "r"(parity)
      : "memory");
}

__device__ void fetch(const CUtensorMap* map, std::uint64_t* barrier, void* to, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          place(to)),
      "l"(map), "r"(place(barrier)), "r"(column), "r"(row)
      : "memory");
}

__global__ void __launch_bounds__(kReaders + 32, 1)
    ring(const CUtensorMap* boxes, int tensors, const __grid_constant__ CUtensorMap own, int box, int columns, int tiles,
         long long* clocks) {
  extern __shared__ std::uint8_t memory[];
  auto* ring = reinterpret_cast<std::uint8_t*>((reinterpret_cast<std::uintptr_t>(memory) + 1023) & ~std::uintptr_t{1023});
  __shared__ std::uint64_t full[kStages], empty[kStages];
  const int box_bytes = box * kRowBytes, bytes = box_bytes + columns * kRowBytes;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(place(&full[i])));
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(place(&empty[i])), "r"(kReaders / 32));
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  const CUtensorMap* map = boxes + blockIdx.x % static_cast<unsigned>(tensors);
  const int tile = static_cast<int>(blockIdx.x) % tiles, column = static_cast<int>(blockIdx.x) / tiles;
  const long long begin = clock64();
  if (threadIdx.x == kReaders) {
    for (int k = 0; k < kSteps; ++k) {
      const int s = k % kStages;
      wait(&empty[s], static_cast<std::uint32_t>((k / kStages) & 1) ^ 1U);
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(place(&full[s])), "r"(bytes));
      fetch(map, &full[s], ring + s * bytes, k * kRowBytes, tile * box);
      if (columns > 0) fetch(&own, &full[s], ring + s * bytes + box_bytes, k * kRowBytes, column * columns);
    }
  }
  if (threadIdx.x < kReaders) {
    for (int k = 0; k < kSteps; ++k) {
      const int s = k % kStages;
      wait(&full[s], static_cast<std::uint32_t>((k / kStages) & 1));
      __syncwarp();
      if (threadIdx.x % 32 == 0) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(place(&empty[s])) : "memory");
    }
    if (threadIdx.x == 0) clocks[blockIdx.x] = clock64() - begin;
  }
}

using Encode = decltype(&cuTensorMapEncodeTiled);

CUtensorMap tensor_map(Encode encode, void* at, std::uint64_t rows, int box) {
  CUtensorMap map;
  const cuuint64_t sizes[2] = {kK, rows}, strides[1] = {kK};
  const cuuint32_t boxes[2] = {kRowBytes, static_cast<cuuint32_t>(box)}, steps[2] = {1, 1};
  const CUresult error =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, at, sizes, strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (error == CUDA_SUCCESS) return map;
  std::fprintf(stderr, "no tensor map: error %d\n", static_cast<int>(error));
  std::exit(4);
}

struct Case {
  int rows, box, columns, ctas, tensors;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const int inside[] = {128, 127, 120, 113, 112, 104, 97, 96, 80, 65, 64, 48, 33, 32, 16, 8, 1};
  for (const int columns : {0, 24, 64}) {
    for (const int ctas : {1, 8, 32, 64, 96, 128}) {
      for (const int rows : inside) all.push_back({rows, 128, columns, ctas, 1});
    }
  }
  for (const int rows : {64, 56, 48, 33, 16, 8, 1}) {
    for (const int tensors : {1, 8, 128}) all.push_back({rows, 64, 24, 128, tensors});
  }
  for (const int rows : {129, 160, 192, 224, 256, 257}) {
    for (const int ctas : {32, 64, 96, 128}) all.push_back({rows, 128, 24, ctas, 1});
  }
  for (const int rows : {128, 97, 65, 33, 1}) {
    for (const int tensors : {2, 4, 8, 16, 32, 64, 128}) all.push_back({rows, 128, 24, 128, tensors});
  }
  return all;
}

}  // namespace

int main() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found), "driver");
  const auto encode = reinterpret_cast<Encode>(entry);
  std::uint8_t *boxes = nullptr, *own = nullptr, *flushed = nullptr;
  long long* clocks = nullptr;
  CUtensorMap* maps = nullptr;
  constexpr std::size_t kFlushed = 256U << 20U, kBoxes = std::size_t{kMostTensors} * 384 * kK;
  check(cudaMalloc(&boxes, kBoxes), "memory");
  check(cudaMalloc(&own, std::size_t{kColumns} * kK), "memory");
  check(cudaMalloc(&flushed, kFlushed), "memory");
  check(cudaMalloc(&clocks, 1024 * sizeof(long long)), "memory");
  check(cudaMalloc(&maps, kMostTensors * sizeof(CUtensorMap)), "memory");
  std::vector<std::uint8_t> noise(std::size_t{1024} * kK);
  for (auto& byte : noise) byte = static_cast<std::uint8_t>(std::rand());
  for (std::size_t at = 0; at + noise.size() <= kBoxes; at += noise.size()) {
    check(cudaMemcpy(boxes + at, noise.data(), noise.size(), cudaMemcpyHostToDevice), "copy");
  }
  for (std::size_t at = 0; at + noise.size() <= std::size_t{kColumns} * kK; at += noise.size()) {
    check(cudaMemcpy(own + at, noise.data(), noise.size(), cudaMemcpyHostToDevice), "copy");
  }
  check(cudaFuncSetAttribute(ring, cudaFuncAttributeMaxDynamicSharedMemorySize, 230000), "shared memory");
  std::printf("rows,box,columns,ctas,tensors,clk_per_step_last_cta,clk_per_step_first_cta\n");
  for (const Case& c : cases()) {
    std::vector<CUtensorMap> of(kMostTensors);
    for (int i = 0; i < c.tensors; ++i) {
      of[static_cast<std::size_t>(i)] = tensor_map(encode, boxes + std::size_t(i) * 384 * kK, std::uint64_t(c.rows), c.box);
    }
    check(cudaMemcpy(maps, of.data(), of.size() * sizeof(CUtensorMap), cudaMemcpyHostToDevice), "copy");
    const CUtensorMap columns = tensor_map(encode, own, kColumns, std::max(8, c.columns));
    double last = 1e30, first = 1e30;
    for (int i = 0; i < kRepeats; ++i) {
      check(cudaMemset(flushed, i, kFlushed), "flush");
      ring<<<static_cast<unsigned>(c.ctas), kReaders + 32, kStages*(c.box + c.columns) * kRowBytes + 1024>>>(
          maps, c.tensors, columns, c.box, c.columns, (c.rows + c.box - 1) / c.box, clocks);
      std::vector<long long> took(static_cast<std::size_t>(c.ctas));
      check(cudaMemcpy(took.data(), clocks, took.size() * sizeof(long long), cudaMemcpyDeviceToHost), "ring");
      const auto [low, high] = std::minmax_element(took.begin(), took.end());
      if (static_cast<double>(*high) / kSteps >= last) continue;
      last = static_cast<double>(*high) / kSteps;
      first = static_cast<double>(*low) / kSteps;
    }
    std::printf("%d,%d,%d,%d,%d,%.1f,%.1f\n", c.rows, c.box, c.columns, c.ctas, c.tensors, last, first);
  }
  return 0;
}
