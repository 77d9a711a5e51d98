// Rotary embedding: the kernel, and where its heads go. Each thread handles an item of 16 bytes in each half of a head,
// whatever token the head belongs to. Variants and their figures: docs/lab/flat.md.
#pragma once

#include "kernels/common/launch.hpp"
#include "kernels/common/vector16.cuh"

namespace plumbline {
namespace device {

constexpr int kRopeThreads = 256, kMaxHalf = 256;

/// Room for the sine and cosine of every token that a CTA meets: 256 items of 8 pairs in whole heads, with the heads
/// cut off at both ends. They are at most 2048 / heads + 16 * kMaxHalf / 8.
constexpr int kTurns = 2048 + 2 * kMaxHalf;

struct RopeShape {
  std::int64_t items;           ///< tokens heads per_head
  Divider per_token, per_head;  ///< items
  int heads, half;
};

/// Sine and cosine of an fp32 angle, within 1e-6 for angles up to 2^18 (positions times frequencies of at most 1):
/// whole turns are taken off in two steps, 2 pi being the sum of two fp32, and what is left is in the range where the
/// special-function unit is good. sincosf() takes five times the instructions.
__device__ inline void turn_of(float angle, float* sine, float* cosine) {
  const float turns = rintf(angle * 0.15915494F);
  const float rest = fmaf(turns, 1.7484556e-7F, fmaf(turns, -6.2831855F, angle));
  *sine = __sinf(rest);
  *cosine = __cosf(rest);
}

/// Every head is turned and goes back to where it came from.
template <class E>
struct TurnInPlace {
  using Element = E;
  E* x;
  int heads, width;
  __device__ E* operator()(std::uint32_t token, std::uint32_t head) const {
    return x + (std::int64_t{token} * heads + head) * width;
  }
  static constexpr bool kAll = true;
  __device__ static bool turns(std::uint32_t) { return true; }
};

/// Each thread turns an item of 8 pairs (`kVectors`: halves are whole vectors) or of one. Its loads are in flight while
/// the CTA computes sine and cosine, once for each token and frequency. `to(token, head)`: where a head goes, of its 16-bit type
/// To::Element.
template <bool kVectors, class To>
__global__ void __launch_bounds__(kRopeThreads)
    rope(const typename To::Element* x, To to, const std::int32_t* positions, const float* inverse_frequency,
         RopeShape s) {
  using E = typename To::Element;
  constexpr int kStep = kVectors ? kVector : 1;
  __shared__ float2 turns[kTurns];
  const std::uint32_t first = blockIdx.x * kRopeThreads, item = first + threadIdx.x;
  const std::uint32_t token = s.per_token.quotient(item), head_item = item - token * s.per_token.by;
  const std::uint32_t head = s.per_head.quotient(head_item), at = (head_item - head * s.per_head.by) * kStep;
  const E* low = x + (std::int64_t{token} * s.heads + head) * (2 * s.half) + at;
  const bool exists = item < s.items;
  uint4 p{}, q{};
  if (kVectors && exists) {
    p = load_vector(low);
    q = load_vector(low + s.half);
  }
  const std::uint32_t first_token = s.per_token.quotient(first);
  const auto last = static_cast<std::uint32_t>(min(s.items, std::int64_t{first} + kRopeThreads) - 1);
  const int count = static_cast<int>(s.per_token.quotient(last) - first_token + 1) * s.half;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kRopeThreads) {
    const int t = i / s.half;
    float sine, cosine;
    turn_of(static_cast<float>(positions[first_token + t]) * inverse_frequency[i - t * s.half], &sine, &cosine);
    // element j of every vector lies together, so that the lanes of a warp read neighbours
    const int frequency = i - t * s.half, vectors = s.half / kStep;
    turns[t * s.half + frequency % kStep * vectors + frequency / kStep] = make_float2(cosine, sine);
  }
  __syncthreads();
  if (!exists) return;
  E* out = to(token, head) + at;
  const bool turned = To::kAll || to.turns(head);
  const float2* turn = turns + (token - first_token) * s.half + at / kStep;
  const int step = s.half / kStep;
  if constexpr (kVectors) {
    float a[kVector], b[kVector];
    unpack_as<E>(p, a);
    unpack_as<E>(q, b);
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      const float2 by = turned ? turn[j * step] : make_float2(1, 0);
      const float rotated = a[j] * by.x - b[j] * by.y;
      b[j] = b[j] * by.x + a[j] * by.y;
      a[j] = rotated;
    }
    *reinterpret_cast<uint4*>(out) = pack_as<E>(a);
    *reinterpret_cast<uint4*>(out + s.half) = pack_as<E>(b);
  } else {
    const float a = to_float(*low), b = to_float(low[s.half]);
    const float2 by = turned ? *turn : make_float2(1, 0);
    *out = rounded<E>(a * by.x - b * by.y);
    out[s.half] = rounded<E>(b * by.x + a * by.y);
  }
}

}  // namespace device

/// Throws NotModelled for a shape that the kernel does not take.
device::RopeShape rope_shape(const Rope& shape);

}  // namespace plumbline
