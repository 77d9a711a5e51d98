// Device parts of the training attention chain that several of its kernels share: the random choice, and groups of
// eight neighbouring columns, whole or at the ragged end of a row.
#pragma once

#include <cstdint>

#include "kernels/chain/attention_chain.hpp"
#include "kernels/common/vector.cuh"
#include "ops/plan/row_menu.hpp"

namespace plumbline::device {

struct ChainArgs {
  const bf16* x;
  const bf16* dy;
  const bf16* mask;  // rmsnorm_backward: gamma
  const bf16* residual;
  bf16* y;
  unsigned char* keep_mask;
  float* log_sum;
  std::int64_t rows;
  int cols;
  float scale, keep_scale;
  std::uint32_t threshold;  // of the upper 16 of 32 bits
  uint2 offset;
  uint2 keys[kPhiloxRounds];  // the seed, then advanced by the generator's two constants a round
};

/// Philox4x32-7: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC'11). A function of
/// (key, counter) without state, so backward draws what forward drew. Seven rounds are the fewest that pass all of
/// BigCrush (their table 2); three more would be a fifth of the fused forward kernel's instructions.
__device__ inline uint4 philox(const uint2 (&keys)[kPhiloxRounds], uint4 counter) {
#pragma unroll
  for (const uint2 key : keys) {
    const std::uint64_t p = std::uint64_t{0xD2511F53U} * counter.x, q = std::uint64_t{0xCD9E8D57U} * counter.z;
    counter = make_uint4(static_cast<std::uint32_t>(q >> 32) ^ counter.y ^ key.x, static_cast<std::uint32_t>(q),
                         static_cast<std::uint32_t>(p >> 32) ^ counter.w ^ key.y, static_cast<std::uint32_t>(p));
  }
  return counter;
}

/// Which of the eight elements of a group stay: 16 random bits each, the lower half of a word first.
struct Choice {
  uint4 random;
  std::uint32_t threshold;

  __device__ Choice(const ChainArgs& a, std::int64_t group) : threshold(a.threshold) {
    const auto n = static_cast<std::uint64_t>(group);
    random = philox(
        a.keys, make_uint4(static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), a.offset.x, a.offset.y));
  }
  __device__ bool keeps(int i) const {
    const std::uint32_t words[4] = {random.x, random.y, random.z, random.w};
    return (i % 2 == 0 ? words[i / 2] << 16 : words[i / 2]) >= threshold;
  }
};

__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Groups a row; the last may be short.
__host__ __device__ inline int groups_of(int cols) { return (cols + kVector - 1) / kVector; }

/// Eight columns of a row. kWhole: rows are whole groups, so each is an aligned vector; else element by element, zeros
/// behind the end.
template <bool kWhole>
__device__ uint4 load_group(const bf16* row, int group, int cols) {
  if constexpr (kWhole) return *reinterpret_cast<const uint4*>(row + group * kVector);
  const auto* raw = reinterpret_cast<const unsigned short*>(row) + group * kVector;
  const int left = cols - group * kVector;
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t low = 2 * i < left ? raw[2 * i] : 0U, high = 2 * i + 1 < left ? raw[2 * i + 1] : 0U;
    words[i] = low | high << 16;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

/// The same for the mask row, which every row reads again.
template <bool kWhole>
__device__ uint4 load_mask(const bf16* mask, int group, int cols) {
  if constexpr (kWhole) return load_shared_by_rows(mask + group * kVector);
  return load_group<kWhole>(mask, group, cols);
}

template <bool kWhole>
__device__ void store_group(bf16* row, int group, int cols, const float (&x)[kVector]) {
  if constexpr (kWhole) {
    *reinterpret_cast<uint4*>(row + group * kVector) = pack(x);
  } else {
    const int left = cols - group * kVector;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i < left) row[group * kVector + i] = __float2bfloat16_rn(x[i]);
    }
  }
}

using Fit = ChainFit;

/// A row as it was read, in the registers of kLanes threads.
template <int kLanes, int kGroups, Fit kFit, bool kTwoInputs>
struct RawRow {
  static constexpr bool kWhole = kFit != Fit::ragged;
  uint4 x[kGroups], dy[kTwoInputs ? kGroups : 1];
  /// Nothing behind the last row.
  __device__ void load(const ChainArgs& a, std::int64_t row, int lane) {
    if (row >= a.rows) return;
    const int groups = groups_of(a.cols);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (kFit != Fit::full && g * kLanes + lane >= groups) continue;
      x[g] = load_group<kWhole>(a.x + row * a.cols, g * kLanes + lane, a.cols);
      if constexpr (kTwoInputs) dy[g] = load_group<kWhole>(a.dy + row * a.cols, g * kLanes + lane, a.cols);
    }
  }
};

/// Reduces over kLanes neighbouring lanes of a warp (any power of two), or over a CTA of kLanes threads.
template <int kLanes, class F>
__device__ float reduce_lanes(float value, F combine) {
  if constexpr (kLanes >= kWarp) {
    return reduce<kLanes>(value, combine);
  } else {
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(~0U, value, step));
    return value;
  }
}

}  // namespace plumbline::device
