#include "kernels/common/tensor_map.cuh"

#include <cuda_runtime.h>

#include <string>

#include "kernels/common/cuda_check.hpp"

namespace plumbline {
namespace {

auto encoder() {
  static const auto found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
    constexpr unsigned kSince = 12000;  // CUDA version of the function's first form
    PLUMBLINE_CUDA_CHECK(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kSince, cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess) throw DeviceError("the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  return found;
}

}  // namespace

CUtensorMap encode_tensor_map(const TensorMapRequest& r) {
  const cuuint32_t every[] = {1, 1, 1, 1, 1};
  CUtensorMap map{};
  const CUresult status =
      encoder()(&map, r.type, r.rank, const_cast<void*>(r.data), r.sizes, r.strides, r.box, every,
                CU_TENSOR_MAP_INTERLEAVE_NONE, r.swizzle, r.promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status == CUDA_SUCCESS) return map;
  std::string sizes;
  for (unsigned i = 0; i < r.rank; ++i) sizes += (i > 0 ? " x " : "") + std::to_string(r.sizes[i]);
  throw DeviceError("cuTensorMapEncodeTiled refuses a tensor of " + sizes + ": error " +
                    std::to_string(static_cast<int>(status)));
}

}  // namespace plumbline
