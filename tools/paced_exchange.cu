// A kernel that holds SMs as an exchange of NCCL does (tools/paced_exchange.py): `ctas` CTAs of `threads` threads and as much
// shared memory as NCCL's (so that no large CTA fits beside one) move `bytes` of `from` to `to` in even pace and end when
// `microseconds` are over. Build: nvcc -O3 -shared -Xcompiler -fPIC -gencode arch=compute_90a,code=sm_90a
#include <cstddef>
#include <cstdint>

namespace {

constexpr int kShared = 96 * 1024;
constexpr std::size_t kSlice = 128 * 1024;  // bytes a CTA moves between two looks at the clock

__device__ std::uint64_t now_ns() {
  std::uint64_t t = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

__global__ void move_in_pace(const uint4* from, uint4* to, std::size_t vectors, double nanoseconds) {
  __shared__ std::uint64_t begin;
  if (threadIdx.x == 0) begin = now_ns();
  __syncthreads();
  const std::size_t mine = vectors / gridDim.x, first = mine * blockIdx.x, slice = kSlice / sizeof(uint4);
  for (std::size_t done = 0; done < mine; done += slice) {
    const std::size_t end = done + slice < mine ? done + slice : mine;
    for (std::size_t i = done + threadIdx.x; i < end; i += blockDim.x) to[first + i] = from[first + i];
    const double due = nanoseconds * static_cast<double>(end) / static_cast<double>(mine);
    while (static_cast<double>(now_ns() - begin) < due) {
    }
    __syncthreads();
  }
}

}  // namespace

extern "C" void paced_exchange(const void* from, void* to, std::size_t bytes, double microseconds, int ctas, int threads,
                               void* stream) {
  cudaFuncSetAttribute(move_in_pace, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  move_in_pace<<<ctas, threads, kShared, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint4*>(from), static_cast<uint4*>(to), bytes / sizeof(uint4), microseconds * 1e3);
}
