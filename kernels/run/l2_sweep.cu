#include "kernels/run/l2_sweep.hpp"

#include <cuda_runtime.h>

#include "kernels/common/measure.cuh"

namespace plumbline {
namespace {

__global__ void sweep_l2(const uint4* from, uint4* to, std::size_t count) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) to[i] = from[i];
}

}  // namespace

struct L2Sweep::Memory {
  DeviceBuffer buffer;
  std::size_t vectors;  // a half
  explicit Memory(std::size_t bytes) : buffer(bytes), vectors(bytes / 2 / sizeof(uint4)) {
    PLUMBLINE_CUDA_CHECK(cudaMemset(buffer.as(), 0, bytes));
  }
};

L2Sweep::L2Sweep(std::size_t bytes) : memory_(std::make_unique<Memory>(bytes)) {}
L2Sweep::~L2Sweep() = default;

void L2Sweep::enqueue(StreamHandle stream) const {
  const uint4* from = memory_->buffer.as<const uint4>();
  uint4* to = memory_->buffer.as<uint4>() + memory_->vectors;
  sweep_l2<<<sm_count() * 8, 256, 0, static_cast<cudaStream_t>(stream)>>>(from, to, memory_->vectors);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline
