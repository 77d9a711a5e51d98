// What stands in for the measurers in a build without CUDA.
#include "arch/error.hpp"
#include "validate/measure/cuda_measurer.hpp"
#include "validate/measure/cuda_prober.hpp"
#include "validate/measure/cuda_step.hpp"

namespace plumbline {
namespace {

constexpr const char* kWithout =
    "validate was built without CUDA: rebuild where nvcc and CUPTI's headers are, or use validate replay";

}  // namespace

std::unique_ptr<StepMeasurer> make_cuda_step_measurer(std::int64_t) { throw DeviceError(kWithout); }
std::unique_ptr<Measurer> make_cuda_measurer() { throw DeviceError(kWithout); }

ProbeRun run_cuda_probes(bool, const ProbeProgress&) { throw DeviceError(kWithout); }

}  // namespace plumbline
