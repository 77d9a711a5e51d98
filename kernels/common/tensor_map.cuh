// Tensor maps for bulk copies, encoded by the driver without linking it: the build machine need not have one.
#pragma once

#include <cuda.h>

namespace plumbline {

/// A tensor of `rank` dimensions, innermost first, read or written in boxes. `strides`: bytes, of all dimensions but
/// the innermost, multiples of 16; `data` aligned to 16 bytes. Outside of the tensor boxes read zeros and write
/// nothing.
struct TensorMapRequest {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  unsigned rank = 0;
  const void* data = nullptr;
  const cuuint64_t* sizes = nullptr;
  const cuuint64_t* strides = nullptr;
  const cuuint32_t* box = nullptr;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
};

/// Throws DeviceError, with the sizes, when the driver refuses.
CUtensorMap encode_tensor_map(const TensorMapRequest& request);

}  // namespace plumbline
