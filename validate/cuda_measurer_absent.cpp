// What stands in for the measurer in a build without CUDA.
#include "arch/error.hpp"
#include "validate/cuda_measurer.hpp"

namespace plumbline {

std::unique_ptr<Measurer> make_cuda_measurer() {
  throw DeviceError("validate was built without CUDA: rebuild where nvcc and CUPTI's headers are, or use --replay");
}

}  // namespace plumbline
