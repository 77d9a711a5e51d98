#include "validate/measure/cuda_measurer.hpp"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>

#include "kernels/common/cuda_check.hpp"
#include "kernels/run/arena.hpp"
#include "kernels/run/runner.hpp"
#include "ops/table/text.hpp"
#include "validate/board/nvml_board.hpp"
#include "validate/measure/cuda_session.hpp"
#include "validate/measure/cuda_timing.hpp"
#include "validate/measure/cupti_activity.hpp"

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

class CudaMeasurer final : public Measurer {
 public:
  MeasuringSession session() const override {
    MeasuringSession s = session_;
    s.dropped_records = tracer_.dropped();
    others_ = std::max(others_, other_processes(board_.compute_processes(), static_cast<unsigned>(::getpid())));
    s.other_processes = others_;
    return s;
  }

  Measurement measure(const StudyCase& what, KernelSet kernels, const OpPrediction& priced) override {
    Measurement out;
    out.what = what;
    out.kernels = kernels;
    const NvtxRange range(std::string(op_name(what.op)) + " " + what.shape);
    try {
      if (kernels == KernelSet::ideal) throw NotModelled("ideal kernels can't be measured");
      arena_.hold(what.data, timing_.stream());
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
  MeasuringSession session_ = describe_session(board_, tracer_.version());
  mutable std::int64_t others_ = 0;  // the most that was seen so far
  Arena arena_;
  CudaTiming timing_{tracer_, board_, session_.l2_B* units::B};
};

}  // namespace

std::unique_ptr<Measurer> make_cuda_measurer() {
  need_driver();
  return std::make_unique<CudaMeasurer>();
}

}  // namespace plumbline
