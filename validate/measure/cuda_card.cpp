#include "validate/measure/cuda_card.hpp"

#include <cuda_runtime_api.h>

#include <ctime>

#include "kernels/common/cuda_check.hpp"

namespace plumbline {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void need_driver() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    throw DeviceError("no CUDA driver: libcuda.so.1 is not here, or has no card");
  }
}

std::string select_card(int number) {
  need_driver();
  int cards = 0;
  if (const cudaError_t counted = cudaGetDeviceCount(&cards); counted != cudaSuccess) {
    throw DeviceError(std::string("no CUDA driver: ") + cudaGetErrorString(counted));
  }
  if (cards == 0) throw DeviceError("no CUDA device: the driver shows none");
  PLUMBLINE_CUDA_CHECK(cudaSetDevice(number));
  char text[32] = {};
  PLUMBLINE_CUDA_CHECK(cudaDeviceGetPCIBusId(text, sizeof text, number));
  return text;
}

Session card_session(const Board& board) {
  cudaDeviceProp p{};
  PLUMBLINE_CUDA_CHECK(cudaGetDeviceProperties(&p, 0));
  int runtime = 0, driver = 0;
  PLUMBLINE_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  PLUMBLINE_CUDA_CHECK(cudaDriverGetVersion(&driver));
  Session s;
  s.gpu = p.name;
  s.compute_capability = std::to_string(p.major) + "." + std::to_string(p.minor);
  s.sms = p.multiProcessorCount;
  s.l2_bytes = p.l2CacheSize;
  s.memory_bytes = static_cast<double>(p.totalGlobalMem);
  s.runtime = "CUDA " + version_text(runtime);
  s.driver = board.driver().empty() ? "CUDA " + version_text(driver) : board.driver();
  s.power_limit_W = board.power_limit().value_or(Watts()).in(units::W);
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  s.date = text;
  return s;
}

}  // namespace plumbline
