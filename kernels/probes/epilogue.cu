// What it costs an SM to store a tile of accumulators: 128 x 256 fp32 in the registers of two warpgroups, as wgmma
// leaves them, to bf16 rows in global memory. Three ways: `direct`, four bytes a lane, as the accumulators lie;
// `staged`, through shared memory and 16 bytes a lane; `copy_engine`, through shared memory and a tensor-map store.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/measure.cuh"
#include "kernels/common/tensor_map.cuh"
#include "kernels/common/vector.cuh"
#include "kernels/probes/probes.hpp"
#include "kernels/probes/wgmma.cuh"

namespace plumbline {
namespace device {
namespace {

constexpr int kRows = 128, kCols = 256, kThreads = 256, kRounds = 4;
constexpr int kPanelBytes = kRows * 128;  // 64 columns
constexpr int kStagedBytes = kCols / 64 * kPanelBytes;
constexpr int kOperandBytes = (kRows + kCols) * 128;  // 64 columns of A, and of B
constexpr int kSharedBytes = kStagedBytes + kOperandBytes + 1024;

enum class Way { direct, staged, copy_engine };

struct EpilogueSample {
  long long free = 0;  ///< until the threads, and shared memory, can go on
  long long done = 0;  ///< until all is written
};

/// Accumulators to shared memory: panels of 64 columns, rows of 128 bytes, chunks swizzled as the copy engine has them.
__device__ void stage(std::uint32_t panels, const float (&d)[kCols / 2]) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int row = warp * 16 + lane % 16;
#pragma unroll
  for (int block = 0; block < kCols / 16; ++block) {
    const int chunk = block % 4 * 2 + lane / 16;
    const std::uint32_t to =
        panels + static_cast<unsigned>(block / 4 * kPanelBytes + row * 128 + (chunk ^ (row & 7)) * 16);
    const float* x = d + block * 8;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(pack_pair(x[0], x[1])), "r"(pack_pair(x[2], x[3])), "r"(pack_pair(x[4], x[5])),
                 "r"(pack_pair(x[6], x[7]))
                 : "memory");
  }
}

__device__ void store_direct(__nv_bfloat16* tile, std::int64_t pitch, const float (&d)[kCols / 2]) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    auto* to = reinterpret_cast<std::uint32_t*>(tile + (warp * 16 + lane / 4 + 8 * half) * pitch) + lane % 4;
#pragma unroll
    for (int n = 0; n < kCols / 8; ++n) to[4 * n] = pack_pair(d[4 * n + 2 * half], d[4 * n + 2 * half + 1]);
  }
}

__device__ void store_staged(__nv_bfloat16* tile, std::int64_t pitch, const unsigned char* panels) {
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kCols / 8; i += kThreads) {
    const int row = i / (kCols / 8), column = i % (kCols / 8), chunk = column % 8;
    const uint4 v =
        *reinterpret_cast<const uint4*>(panels + column / 8 * kPanelBytes + row * 128 + (chunk ^ (row & 7)) * 16);
    *reinterpret_cast<uint4*>(tile + row * pitch + column * 8) = v;
  }
}

__device__ void store_panels(const CUtensorMap* map, std::uint32_t panels, int column, int row) {
  for (int panel = 0; panel < kCols / 64; ++panel) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
                 "r"(panels + panel * kPanelBytes), "r"(column + panel * 64), "r"(row)
                 : "memory");
  }
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ void fill_operands(unsigned char* to) {
  for (int i = static_cast<int>(threadIdx.x); i < kOperandBytes / 2; i += kThreads) {
    reinterpret_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16_rn(static_cast<float>(i * 2654435761U >> 20) / 2048 - 1);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}

/// Each CTA stores kRounds tiles of its own, with a pause behind each, and reports the last.
template <Way kWay>
__global__ void __launch_bounds__(kThreads, 1)
    epilogue(const __grid_constant__ CUtensorMap map, __nv_bfloat16* y, std::int64_t pitch, EpilogueSample* samples) {
  extern __shared__ unsigned char raw[];
  const std::uint32_t start = hopper::shared_address(raw), panels = (start + 1023) / 1024 * 1024;
  const std::uint32_t operands = panels + kStagedBytes;
  fill_operands(raw + (operands - start));
  const std::uint64_t a = operand_descriptor(operands + kCols * 128 + threadIdx.x / 128 * 8192);
  const std::uint64_t b = operand_descriptor(operands);
  float d[kCols / 2] = {};
  for (int round = 0; round < kRounds; ++round) {
    const int column = static_cast<int>(blockIdx.x) * kCols, row = round * kRows;
    __nv_bfloat16* tile = y + row * pitch + column;
    wgmma_fence();
    Wgmma<TensorKind::bf16, kCols>::run(d, {0, 0, 0, 0}, a, b);
    wgmma_commit();
    __nanosleep(2000);  // long done; but nothing that needs the sums can be moved above the wait
    __syncthreads();
    const long long begin = clock64();
    wgmma_wait<0>();
    if constexpr (kWay == Way::direct) store_direct(tile, pitch, d);
    if constexpr (kWay != Way::direct) {
      stage(panels, d);
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncthreads();
    }
    if constexpr (kWay == Way::staged) store_staged(tile, pitch, raw + (panels - start));
    if constexpr (kWay == Way::copy_engine) {
      if (threadIdx.x == 0) store_panels(&map, panels, column, row);
    }
    __syncthreads();
    const long long free = clock64();
    if (kWay == Way::copy_engine && threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    if constexpr (kWay != Way::copy_engine) __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) samples[blockIdx.x] = {free - begin, clock64() - begin};
    while (clock64() - begin < 30000) __nanosleep(500);
  }
}

}  // namespace
}  // namespace device

namespace {

using device::EpilogueSample;
using device::Way;

CUtensorMap output_map(void* y, std::int64_t cols, std::int64_t rows) {
  const cuuint64_t extents[] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(cols) * 2};
  const cuuint32_t box[] = {64, device::kRows};
  return encode_tensor_map({CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, y, extents, strides, box, CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B});
}

template <Way kWay>
void measure(const char* way, std::vector<Record>& out) {
  const Stream s;
  for (const int ctas : {1, sm_count()}) {
    const std::int64_t cols = std::int64_t{ctas} * device::kCols, rows = std::int64_t{device::kRounds} * device::kRows;
    const DeviceBuffer y(static_cast<std::size_t>(cols * rows) * 2);
    const DeviceBuffer samples(static_cast<std::size_t>(ctas) * sizeof(EpilogueSample));
    const auto kernel = device::epilogue<kWay>;
    PLUMBLINE_CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, device::kSharedBytes));
    const CUtensorMap map = output_map(y.as(), cols, rows);
    for (int i = 0; i < 2; ++i) {
      kernel<<<static_cast<unsigned>(ctas), device::kThreads, device::kSharedBytes, s>>>(
          map, y.as<__nv_bfloat16>(), cols, samples.as<EpilogueSample>());
      PLUMBLINE_CUDA_CHECK(cudaGetLastError());
    }
    s.wait();
    std::vector<EpilogueSample> host(static_cast<std::size_t>(ctas));
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(host.data(), samples.as(), samples.bytes(), cudaMemcpyDeviceToHost));
    std::vector<double> free, done;
    for (const EpilogueSample& e : host) {
      free.push_back(static_cast<double>(e.free));
      done.push_back(static_cast<double>(e.done));
    }
    const std::string setting = std::string("way=") + way + ";tile=128x256;sms=" + std::to_string(ctas);
    out.push_back({"epilogue_store_clk", setting, spread(free)});
    out.push_back({"epilogue_visible_clk", setting, spread(done)});
  }
}

}  // namespace

std::vector<Record> probe_epilogue() {
  std::vector<Record> out;
  measure<Way::direct>("direct", out);
  measure<Way::staged>("staged", out);
  measure<Way::copy_engine>("copy_engine", out);
  return out;
}

}  // namespace plumbline
