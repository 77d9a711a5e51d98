// The 16-bit types that our kernels are templates of: E is __nv_bfloat16 or __half.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace plumbline::device {

/// Two fp32 as two of E, `low` in the low half.
template <class E>
__host__ __device__ std::uint32_t pack_two(float low, float high) {
  if constexpr (std::is_same_v<E, __half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
}
template <class E>
__host__ __device__ E rounded(float x) {
  if constexpr (std::is_same_v<E, __half>) return __float2half_rn(x);
  else return __float2bfloat16_rn(x);
}

}  // namespace plumbline::device
