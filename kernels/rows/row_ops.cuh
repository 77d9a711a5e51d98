// What operators on whole rows have in common: softmax's running sum, and the largest element.
#pragma once

#include <cstdint>

#include "kernels/common/vector16.cuh"

namespace plumbline::device {

constexpr float kLog2E = 1.4426950408889634F;

/// Largest element and the sum of 2^(x - largest), of parts of a row.
struct MergeSoftmax {
  __device__ float2 operator()(float2 a, float2 b) const {
    const float largest = fmaxf(a.x, b.x), base = largest == -INFINITY ? 0.0F : largest;
    return make_float2(largest, a.y * exp2_approx(a.x - base) + b.y * exp2_approx(b.x - base));
  }
};

/// The largest of 8 elements, two at a time; a NaN counts for nothing.
template <class E>
__device__ float largest_of(const uint4& v) {
  using Pair = std::conditional_t<std::is_same_v<E, __half>, __half2, __nv_bfloat162>;
  const auto pair = [](std::uint32_t w) { return *reinterpret_cast<const Pair*>(&w); };
  const Pair m = __hmax2(__hmax2(pair(v.x), pair(v.y)), __hmax2(pair(v.z), pair(v.w)));
  return fmaxf(__low2float(m), __high2float(m));
}

/// An integer that orders as the value does; -0 and 0 are one.
__device__ inline std::uint32_t ordered(float x) {
  const std::uint32_t b = __float_as_uint(x + 0.0F);
  return (b & 0x80000000U) != 0 ? ~b : b | 0x80000000U;
}

/// The first of a thread's largest elements: its value, its vector and its place in it.
struct Largest {
  float value;
  int vector, place;
};
template <class E, int kVecs>
__device__ Largest find_largest(const uint4 (&held)[kVecs]) {
  Largest best{largest_of<E>(held[0]), 0, 0};
  uint4 vector = held[0];
#pragma unroll
  for (int i = 1; i < kVecs; ++i) {
    const float m = largest_of<E>(held[i]);
    if (m > best.value) {
      best.value = m;
      best.vector = i;
      vector = held[i];
    }
  }
  float x[kVector];
  unpack_as<E>(vector, x);
#pragma unroll
  for (int j = kVector - 1; j >= 0; --j) {
    if (x[j] == best.value) best.place = j;
  }
  return best;
}

}  // namespace plumbline::device
