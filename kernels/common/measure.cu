#include "kernels/common/measure.cuh"

#include <chrono>
#include <memory>
#include <thread>

namespace plumbline {
namespace {

class Event {
 public:
  Event() { PLUMBLINE_CUDA_CHECK(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  PLUMBLINE_CUDA_CHECK(cudaGetDevice(&device));
  PLUMBLINE_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

/// True once the device has passed it.
bool passed(cudaEvent_t event) {
  const cudaError_t status = cudaEventQuery(event);
  if (status == cudaErrorNotReady) return false;
  PLUMBLINE_CUDA_CHECK(status);
  return true;
}

}  // namespace

int sm_count() { return attribute(cudaDevAttrMultiProcessorCount); }
std::size_t l2_bytes() { return static_cast<std::size_t>(attribute(cudaDevAttrL2CacheSize)); }
int compute_capability() {
  return 10 * attribute(cudaDevAttrComputeCapabilityMajor) + attribute(cudaDevAttrComputeCapabilityMinor);
}

std::vector<double> time_each(cudaStream_t stream, int warm_up, int count, const std::function<void()>& work,
                              const std::function<void()>& meanwhile) {
  std::vector<std::unique_ptr<Event>> marks;
  for (int i = 0; i <= count; ++i) marks.push_back(std::make_unique<Event>());
  for (int i = 0; i < warm_up; ++i) work();
  PLUMBLINE_CUDA_CHECK(cudaEventRecord(*marks.front(), stream));
  for (int i = 1; i <= count; ++i) {
    work();
    PLUMBLINE_CUDA_CHECK(cudaEventRecord(*marks[static_cast<std::size_t>(i)], stream));
  }
  while (meanwhile && !passed(*marks.back())) {
    meanwhile();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  PLUMBLINE_CUDA_CHECK(cudaEventSynchronize(*marks.back()));
  std::vector<double> seconds;
  for (std::size_t i = 1; i < marks.size(); ++i) {
    float ms = 0;
    PLUMBLINE_CUDA_CHECK(cudaEventElapsedTime(&ms, *marks[i - 1], *marks[i]));
    seconds.push_back(1e-3 * static_cast<double>(ms));
  }
  return seconds;
}

}  // namespace plumbline
