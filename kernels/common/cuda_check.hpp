// One check for every CUDA runtime call: the call, the error's name and text, and the place, as a DeviceError.
//
// Names no CUDA header, so that it compiles anywhere; a file that uses the macro includes <cuda_runtime.h> itself.
#pragma once

#include <string>

#include "arch/error.hpp"

namespace plumbline {

/// "kernels/probes/probes.cu:12: cudaMalloc(&p, n): cudaErrorMemoryAllocation (out of memory)"
inline std::string device_failure(const char* place, int line, const char* call, const char* name, const char* text) {
  return std::string(place) + ":" + std::to_string(line) + ": " + call + ": " + name + " (" + text + ")";
}

}  // namespace plumbline

#define PLUMBLINE_CUDA_CHECK(call)                                                                               \
  do {                                                                                                           \
    const cudaError_t plumbline_status = (call);                                                                 \
    if (plumbline_status != cudaSuccess) {                                                                       \
      throw ::plumbline::DeviceError(::plumbline::device_failure(                                                \
          __FILE__, __LINE__, #call, cudaGetErrorName(plumbline_status), cudaGetErrorString(plumbline_status))); \
    }                                                                                                            \
  } while (false)
