#include "validate/cuda_session.hpp"

#include <cuda_runtime_api.h>

#include <ctime>

#include "kernels/cuda_check.hpp"
#include "validate/known_gpu.hpp"

namespace plumbline {
namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string date_and_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

std::string select_card() {
  int driver = 0, cards = 0;
  const cudaError_t status = cudaDriverGetVersion(&driver);
  if (status != cudaSuccess || driver == 0) throw DeviceError("no CUDA driver: libcuda.so.1 could not be loaded");
  if (const cudaError_t counted = cudaGetDeviceCount(&cards); counted != cudaSuccess) {
    throw DeviceError(std::string("no CUDA driver: ") + cudaGetErrorString(counted));
  }
  if (cards == 0) throw DeviceError("no CUDA device: the driver shows none");
  PLUMBLINE_CUDA_CHECK(cudaSetDevice(0));
  char text[32] = {};
  PLUMBLINE_CUDA_CHECK(cudaDeviceGetPCIBusId(text, sizeof text, 0));
  return text;
}

MeasuringSession describe_session(const Board& board, const std::string& profiler) {
  cudaDeviceProp p{};
  PLUMBLINE_CUDA_CHECK(cudaGetDeviceProperties(&p, 0));
  int runtime = 0, driver = 0;
  PLUMBLINE_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  PLUMBLINE_CUDA_CHECK(cudaDriverGetVersion(&driver));
  MeasuringSession s;
  s.card = p.name;
  s.sms = p.multiProcessorCount;
  s.l2_B = p.l2CacheSize;
  s.memory_B = static_cast<double>(p.totalGlobalMem);
  s.gpu = descriptor_of(
      {p.name, std::to_string(p.major) + "." + std::to_string(p.minor), p.multiProcessorCount, s.memory_B * units::B});
  s.driver = board.driver().empty() ? "CUDA " + version_text(driver) : board.driver();
  s.toolkit = "CUDA " + version_text(runtime);
  s.profiler = profiler;
  s.date = date_and_time();
  s.power_limit_W = board.power_limit().value_or(Watts()).in(units::W);
  return s;
}

}  // namespace plumbline
