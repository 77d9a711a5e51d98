// What runs before and after the kernel of attention's backward pass: sums by query, and dQ from fp32 sums to bf16.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/attention/flash_backward.cuh"
#include "kernels/common/vector.cuh"

namespace plumbline::flash {

/// Queries of a CTA before and after; the padding of a head's queries is a multiple of both.
inline constexpr int kPrepareTile = 32, kSumTile = 128, kSumThreads = 256;

struct BackwardSums {
  const __nv_bfloat16 *o, *d_o;  // [B, Sq, Hq, D]
  const float* lse;              // [B, Hq, Sq]
  float *lse2, *delta, *dq;      // see BackwardTask
  __nv_bfloat16* dq_out;         // [B, Sq, Hq, D]
  int q_len, q_heads, padded;
  float scale;
};

/// delta = sum of dO O over a row, log-sum-exps to the base of 2, dQ's sums set to 0. CTA (tile, head).
template <int kHeadDim>
__global__ void __launch_bounds__(kSumThreads) prepare_backward(const BackwardSums t) {
  constexpr int kLanes = kHeadDim / 8, kRows = kSumThreads / kLanes, kPasses = kPrepareTile / kRows;
  const int first = blockIdx.x * kPrepareTile, head = blockIdx.y;
  const int lane = threadIdx.x % kLanes, place = threadIdx.x / kLanes;
  const std::int64_t sums = std::int64_t{head} * t.padded;
  uint4 o[kPasses], d_o[kPasses];
#pragma unroll
  for (int i = 0; i < kPasses; ++i) {
    const int row = first + i * kRows + place;
    const std::int64_t at =
        ((std::int64_t{head / t.q_heads} * t.q_len + min(row, t.q_len - 1)) * t.q_heads + head % t.q_heads) * kHeadDim;
    o[i] = device::load_vector(t.o + at + 8 * lane);
    d_o[i] = device::load_vector(t.d_o + at + 8 * lane);
  }
  // while these are on their way
  float4* zero = reinterpret_cast<float4*>(t.dq + (sums + first) * kHeadDim);
#pragma unroll 4
  for (int i = threadIdx.x; i < kPrepareTile * kHeadDim / 4; i += kSumThreads) zero[i] = make_float4(0, 0, 0, 0);
#pragma unroll
  for (int i = 0; i < kPasses; ++i) {
    float x[8], y[8], sum = 0;
    device::unpack(o[i], x);
    device::unpack(d_o[i], y);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum = fmaf(x[j], y[j], sum);
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
    const int row = first + i * kRows + place;
    if (lane == 0) {
      constexpr float kLog2e = 1.4426950408889634F;
      const bool exists = row < t.q_len;
      t.delta[sums + row] = exists ? sum : 0.0F;
      t.lse2[sums + row] = exists ? t.lse[std::int64_t{head} * t.q_len + row] * kLog2e : INFINITY;
    }
  }
}

/// dQ = scale * the sums, from the order of the accumulators to rows. CTA (tile, head); a warp takes parts of 4 KiB as
/// BackwardConsumer left them.
template <class T>
__global__ void __launch_bounds__(kSumThreads) finish_backward(const BackwardSums t) {
  constexpr int kParts = kSumTile * T::kHeadDim / 1024, kPerBlock = T::kQueries * T::kHeadDim / 1024;
  const int lane = threadIdx.x % 32, head = blockIdx.y;
  const std::int64_t batch = head / t.q_heads;
  const float* sums = t.dq + (std::int64_t{head} * t.padded + blockIdx.x * kSumTile) * T::kHeadDim;
#pragma unroll 2
  for (int part = threadIdx.x / 32; part < kParts; part += kSumThreads / 32) {
    float4 v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = *reinterpret_cast<const float4*>(sums + part * 1024 + 4 * (32 * i + lane));
    const int inside = part % kPerBlock;
    const int row = blockIdx.x * kSumTile + part / kPerBlock * T::kQueries + 16 * (inside % 4) + lane / 4;
    const int column = inside / 4 * 64;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = row + 8 * r;
      const std::int64_t at = ((batch * t.q_len + query) * t.q_heads + head % t.q_heads) * T::kHeadDim;
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        std::uint32_t w[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float4 x = v[4 * c + i];
          w[i] = r == 0 ? pack_bf16(x.x * t.scale, x.y * t.scale) : pack_bf16(x.z * t.scale, x.w * t.scale);
        }
        transpose_quad(w);
        if (query < t.q_len) {
          *reinterpret_cast<uint4*>(t.dq_out + at + column + 32 * c + 8 * (lane % 4)) =
              make_uint4(w[0], w[1], w[2], w[3]);
        }
      }
    }
  }
}

}  // namespace plumbline::flash
