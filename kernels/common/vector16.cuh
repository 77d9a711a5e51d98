// 16-byte vectors of either 16-bit type: what vector.cuh has for bf16, by the type E (__nv_bfloat16 or __half).
#pragma once

#include "kernels/common/half.cuh"
#include "kernels/common/vector.cuh"

namespace plumbline::device {

__device__ inline float to_float(bf16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }

template <class E>
__device__ void unpack_as(const uint4& v, float (&x)[kVector]) {
  if constexpr (std::is_same_v<E, bf16>) {
    unpack(v, x);
  } else {
    const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
      x[2 * i] = pair.x;
      x[2 * i + 1] = pair.y;
    }
  }
}

template <class E>
__device__ uint4 pack_as(const float (&x)[kVector]) {
  return make_uint4(pack_two<E>(x[0], x[1]), pack_two<E>(x[2], x[3]), pack_two<E>(x[4], x[5]), pack_two<E>(x[6], x[7]));
}

}  // namespace plumbline::device
