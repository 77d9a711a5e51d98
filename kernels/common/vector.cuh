// Device helpers shared by the bf16 kernels: 16-byte vectors, conversions, reductions over a group of threads.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace plumbline::device {

constexpr int kWarp = 32;
constexpr int kVector = 8;  // bf16 elements in 16 bytes

using bf16 = __nv_bfloat16;

/// Loads carry no hint that data is used once (ld.cs, st.cs). With the hint L2 gives such lines up first: data that fit
/// are gone when the next launch wants them (warm launches take up to 1.7 times as long), and writes leave in smaller
/// portions, which costs 2 to 6 % of a stream from DRAM (docs/lab/flat.md). The assembly leaves loads side by side
/// where they are written; the compiler would move some of them to their uses.
__device__ inline uint4 load_vector(const void* p) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}
__device__ inline uint4 load_shared_by_rows(const bf16* p) { return __ldg(reinterpret_cast<const uint4*>(p)); }
__device__ inline void store_vector(bf16* p, uint4 v) { *reinterpret_cast<uint4*>(p) = v; }

/// bf16 is the upper half of fp32: a shift and a mask instead of conversion instructions.
__device__ inline void unpack(const uint4& v, float (&x)[kVector]) {
  const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[2 * i] = __uint_as_float(words[i] << 16);
    x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
  }
}

__device__ inline std::uint32_t pack_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

__device__ inline uint4 pack(const float (&x)[kVector]) {
  return make_uint4(pack_pair(x[0], x[1]), pack_pair(x[2], x[3]), pack_pair(x[4], x[5]), pack_pair(x[6], x[7]));
}

/// 2^x on the special-function unit, 2 units in the last place; results below 2^-126 are 0.
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Two fp32 as e4m3, `low` in the low byte.
__device__ inline std::uint32_t pair_to_e4m3(float low, float high) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}

/// Division of n < 2^31 by a number that the host knows: a multiplication, an addition and a shift. "Division by
/// invariant integers using multiplication", Granlund and Montgomery 1994.
struct Divider {
  std::uint32_t by, factor, shift;

  explicit Divider(std::int64_t divisor) : by(static_cast<std::uint32_t>(divisor)), shift(0) {
    while ((std::uint64_t{1} << shift) < by) ++shift;
    factor = static_cast<std::uint32_t>((((std::uint64_t{1} << shift) - by) << 32) / by + 1);
  }
  __device__ std::uint32_t quotient(std::uint32_t n) const { return (__umulhi(n, factor) + n) >> shift; }
};

struct Add {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct AddPairs {
  __device__ float2 operator()(float2 a, float2 b) const { return make_float2(a.x + b.x, a.y + b.y); }
};

__device__ inline float2 shuffle_xor(float2 v, int step) {
  return make_float2(__shfl_xor_sync(~0U, v.x, step), __shfl_xor_sync(~0U, v.y, step));
}
template <class T>
__device__ T shuffle_xor(T v, int step) {
  return __shfl_xor_sync(~0U, v, step);
}

/// Combines `value` over kThreads neighbouring threads (a warp, or a whole CTA of a power of two warps) and gives all
/// of them the result, in an order that does not change between runs.
template <int kThreads, class T, class F>
__device__ T reduce(T value, F combine) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(~0U, value, step));
  if constexpr (kThreads > kWarp) {
    constexpr int kWarps = kThreads / kWarp;
    static_assert((kWarps & (kWarps - 1)) == 0 && kWarps <= kWarp);
    __shared__ T slots[kWarps];
    __syncthreads();  // the slots of an earlier reduction have been read
    if (threadIdx.x % kWarp == 0) slots[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = slots[threadIdx.x % kWarps];
#pragma unroll
    for (int step = kWarps / 2; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(~0U, value, step));
  }
  return value;
}

}  // namespace plumbline::device
