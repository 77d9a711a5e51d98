// Rotary embedding in place.
//
// Variants: a CTA a token (85 % of 4.8 TB/s with 40 heads of 128, but 75 % with 10, where most threads had no work); a
// thread an item of 16 bytes in each half, whatever token it belongs to: 82 for both with sincosf(), 83.4 with the
// cheaper turn_of(): this (H200, 2026-11-20). Table of turns by frequency: 66 % with heads of 256 (bank conflicts).

#include "kernels/cuda_check.hpp"
#include "kernels/launch.hpp"
#include "kernels/vector.cuh"

namespace plumbline {
namespace device {

// --- rope ------------------------------------------------------------------------------------------------------------

constexpr int kRopeThreads = 256, kMaxHalf = 256;

/// Sine and cosine of every token that a CTA meets: 256 items of 8 pairs in whole heads, with what is cut off at both
/// ends; at most 2048 / heads + 16 * kMaxHalf / 8.
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

/// An item a thread: 8 pairs (`kVectors`: halves are whole vectors) or one. The loads are on their way while the CTA
/// works out sine and cosine, once a token and frequency.
template <bool kVectors>
__global__ void __launch_bounds__(kRopeThreads)
    rope(bf16* x, const std::int32_t* positions, const float* inverse_frequency, RopeShape s) {
  constexpr int kStep = kVectors ? kVector : 1;
  __shared__ float2 turns[kTurns];
  const std::uint32_t first = blockIdx.x * kRopeThreads, item = first + threadIdx.x;
  const std::uint32_t token = s.per_token.quotient(item), head_item = item - token * s.per_token.by;
  const std::uint32_t head = s.per_head.quotient(head_item), at = (head_item - head * s.per_head.by) * kStep;
  bf16* low = x + (std::int64_t{token} * s.heads + head) * (2 * s.half) + at;
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
  const float2* turn = turns + (token - first_token) * s.half + at / kStep;
  const int step = s.half / kStep;
  if constexpr (kVectors) {
    float a[kVector], b[kVector];
    unpack(p, a);
    unpack(q, b);
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      const float2 by = turn[j * step];
      const float rotated = a[j] * by.x - b[j] * by.y;
      b[j] = b[j] * by.x + a[j] * by.y;
      a[j] = rotated;
    }
    store_vector(low, pack(a));
    store_vector(low + s.half, pack(b));
  } else {
    const float a = __bfloat162float(*low), b = __bfloat162float(low[s.half]);
    *low = __float2bfloat16_rn(a * turn->x - b * turn->y);
    low[s.half] = __float2bfloat16_rn(b * turn->x + a * turn->y);
  }
}

}  // namespace device

namespace {

device::RopeShape cut(const Rope& s) {
  const int half = static_cast<int>(s.head_dim / 2);
  if (s.head_dim % 2 != 0 || half < 1 || half > device::kMaxHalf) {
    throw NotModelled("rope: our kernel takes an even head width up to 512");
  }
  const std::int64_t per_head = half % device::kVector == 0 ? half / device::kVector : half;
  const std::int64_t items = s.tokens * s.heads * per_head;
  if (s.tokens < 1 || s.heads < 1 || items > 0x7fffff00) throw NotModelled("rope: our kernel takes up to 2^31 vectors");
  return {items, device::Divider(s.heads * per_head), device::Divider(per_head), static_cast<int>(s.heads), half};
}

}  // namespace

KernelPlan rope_plan(const Rope& s) {
  KernelPlan p;
  p.ctas = (cut(s).items + device::kRopeThreads - 1) / device::kRopeThreads;
  p.threads = device::kRopeThreads;
  return p;
}

void launch_rope(const Rope& s, void* x, const std::int32_t* positions, const float* inverse_frequency,
                 StreamHandle handle) {
  if (s.dtype != DType::bf16) throw NotModelled("rope: our kernel is for bf16");
  const device::RopeShape shape = cut(s);
  const auto kernel = shape.half % device::kVector == 0 ? device::rope<true> : device::rope<false>;
  kernel<<<static_cast<unsigned>(rope_plan(s).ctas), device::kRopeThreads, 0, static_cast<cudaStream_t>(handle)>>>(
      static_cast<device::bf16*>(x), positions, inverse_frequency, shape);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline
