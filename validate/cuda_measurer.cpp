#include "validate/cuda_measurer.hpp"

#include <cuda_runtime_api.h>

#include <ctime>

#include "kernels/arena.hpp"
#include "kernels/cuda_check.hpp"
#include "kernels/runner.hpp"
#include "ops/op_text.hpp"
#include "validate/cuda_timing.hpp"
#include "validate/cupti_activity.hpp"
#include "validate/known_gpu.hpp"
#include "validate/nvml_board.hpp"

// Header-only, but a package of its own.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define PLUMBLINE_NVTX_PUSH(text) nvtxRangePushA(text)
#define PLUMBLINE_NVTX_POP() nvtxRangePop()
#else
#define PLUMBLINE_NVTX_PUSH(text) static_cast<void>(text)
#define PLUMBLINE_NVTX_POP() static_cast<void>(0)
#endif

namespace plumbline {
namespace {

/// Nsight shows the operator's name over its kernels.
class NvtxRange {
 public:
  explicit NvtxRange(const std::string& text) { PLUMBLINE_NVTX_PUSH(text.c_str()); }
  ~NvtxRange() { PLUMBLINE_NVTX_POP(); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

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

/// Card 0 of those that CUDA shows us, made current.
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

MeasuringSession describe(const Board& board, const KernelTracer& tracer) {
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
  s.profiler = tracer.version();
  s.date = date_and_time();
  s.power_limit_W = board.power_limit().value_or(Watts()).in(units::W);
  return s;
}

class CudaMeasurer final : public Measurer {
 public:
  MeasuringSession session() const override {
    MeasuringSession s = session_;
    s.dropped_records = tracer_.dropped();
    return s;
  }

  CaseMeasurement measure(const StudyCase& what, KernelSet kernels, const OpPrediction& priced) override {
    CaseMeasurement out;
    out.what = what;
    out.kernels = kernels;
    const NvtxRange range(std::string(op_name(what.op)) + " " + what.shape);
    try {
      if (kernels == KernelSet::ideal) throw NotModelled("ideal kernels can't be measured");
      const RunnerPlans plans{priced.gemm_plan, priced.attention_plan};
      const Runner runner = kernels == KernelSet::own ? make_own_runner(what.op, plans, arena_, timing_.stream())
                                                      : make_library_runner(what.op, arena_, timing_.stream());
      out.plan = runner.plan;
      if (what.clock == ClockMode::burst) {
        timing_.burst(runner, what.cache, out);
      } else {
        timing_.steady(runner, what.cache, out);
      }
    } catch (const NotModelled& refusal) {
      out.fault = refusal.what();
    } catch (const DeviceError& failure) {
      // A refused launch is this case's fault; a card that no longer answers ends the run.
      cudaGetLastError();
      if (cudaDeviceSynchronize() != cudaSuccess) throw;
      out.fault = failure.what();
    }
    return out;
  }

 private:
  KernelTracer tracer_;  // first: CUPTI wants to see the context made
  Board board_{select_card()};
  MeasuringSession session_ = describe(board_, tracer_);
  Arena arena_;
  CudaTiming timing_{tracer_, board_, session_.l2_B* units::B};
};

}  // namespace

std::unique_ptr<Measurer> make_cuda_measurer() {
  // Before CUPTI, whose message without a driver says less.
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    throw DeviceError("no CUDA driver: libcuda.so.1 is not here, or has no card");
  }
  return std::make_unique<CudaMeasurer>();
}

}  // namespace plumbline
