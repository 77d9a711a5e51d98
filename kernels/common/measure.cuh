// What every measurement here needs: owned device memory, streams, events and graphs, and the summary of samples.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/records.hpp"

namespace plumbline {

/// SMs of the current device, its L2, and 90 for compute capability 9.0.
int sm_count();
std::size_t l2_bytes();
int compute_capability();

class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes) : bytes_(bytes) { PLUMBLINE_CUDA_CHECK(cudaMalloc(&data_, bytes)); }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  template <class T = char>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class Stream {
 public:
  Stream() { PLUMBLINE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void wait() const { PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Device time between two points of a stream.
class Stopwatch {
 public:
  Stopwatch() {
    PLUMBLINE_CUDA_CHECK(cudaEventCreate(&start_));
    PLUMBLINE_CUDA_CHECK(cudaEventCreate(&stop_));
  }
  ~Stopwatch() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  void start(cudaStream_t stream) const { PLUMBLINE_CUDA_CHECK(cudaEventRecord(start_, stream)); }
  void stop(cudaStream_t stream) const { PLUMBLINE_CUDA_CHECK(cudaEventRecord(stop_, stream)); }
  /// Waits for the second point.
  double seconds() const {
    float ms = 0;
    PLUMBLINE_CUDA_CHECK(cudaEventSynchronize(stop_));
    PLUMBLINE_CUDA_CHECK(cudaEventElapsedTime(&ms, start_, stop_));
    return 1e-3 * static_cast<double>(ms);
  }

 private:
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

/// The launches that `enqueue` makes on the stream, as one graph.
class CudaGraph {
 public:
  CudaGraph(cudaStream_t stream, const std::function<void()>& enqueue) {
    PLUMBLINE_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    try {
      enqueue();
    } catch (...) {  // the stream must not be left capturing
      cudaStreamEndCapture(stream, &graph_);
      destroy();
      throw;
    }
    const cudaError_t captured = cudaStreamEndCapture(stream, &graph_);
    const cudaError_t ready = captured == cudaSuccess ? cudaGraphInstantiate(&exec_, graph_, 0) : captured;
    if (ready != cudaSuccess) destroy();
    PLUMBLINE_CUDA_CHECK(ready);
  }
  ~CudaGraph() { destroy(); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  void launch(cudaStream_t stream) const { PLUMBLINE_CUDA_CHECK(cudaGraphLaunch(exec_, stream)); }
  /// Sends it to the device, so that the first launch does not have to.
  void upload(cudaStream_t stream) const { PLUMBLINE_CUDA_CHECK(cudaGraphUpload(exec_, stream)); }

 private:
  void destroy() noexcept {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
    cudaGetLastError();  // a failed capture's error is told once, by the call that met it
  }

  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

/// Device time of each of `count` calls of `work`, enqueued back to back behind `warm_up` (at least 1) calls that are
/// not counted: the host's share hides behind the call before. While the device works, `meanwhile` is called about
/// every ms.
std::vector<double> time_each(cudaStream_t stream, int warm_up, int count, const std::function<void()>& work,
                              const std::function<void()>& meanwhile = {});

}  // namespace plumbline
