#include "kernels/run/case_marker.hpp"

#include <cuda_runtime.h>

#include "kernels/common/cuda_check.hpp"

namespace plumbline {
namespace {

__global__ void case_marker() {}
__global__ void case_end() {}

}  // namespace

void mark_case(int number, StreamHandle stream) {
  case_marker<<<static_cast<unsigned>(number) + 1, 1, 0, static_cast<cudaStream_t>(stream)>>>();
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void end_case(StreamHandle stream) {
  case_end<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>();
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline
