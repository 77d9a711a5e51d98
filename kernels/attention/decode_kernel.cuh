// Split-KV decode attention: the consumer warps, and the kernel.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/attention/decode_ptx.cuh"
#include "kernels/attention/decode_ring.cuh"

namespace plumbline::decode {

/// Running softmax of 16 query rows in the layout of mma accumulators: a thread has rows lane / 4 and that + 8.
template <int kHeadDim>
struct Rows {
  float o[kHeadDim / 8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  ///< this thread's columns only
};

template <int kHeadDim>
using Query = std::uint32_t[kHeadDim / 16][4];

/// Every lane of the warp has read the stage.
__device__ inline void release(std::uint32_t barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
}

/// A fragments of the packed query heads; rows beyond the group are zero.
template <class E, int kHeadDim>
__device__ void load_query(Query<kHeadDim>& q, const Task& t, const Part& p) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first = (std::int64_t{p.sequence} * t.kv_heads + p.head) * t.group;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + 8 * half;
    const auto* from =
        reinterpret_cast<const std::uint32_t*>(static_cast<const E*>(t.q) + (first + row) * kHeadDim) + lane % 4;
#pragma unroll
    for (int k = 0; k < kHeadDim / 16; ++k) {
      q[k][half] = row < t.group ? from[8 * k] : 0;
      q[k][half + 2] = row < t.group ? from[8 * k + 4] : 0;
    }
  }
}

/// scores[16 rows, 16 keys] = q k^T of this warp's keys; `k` is the first of their rows in the stage.
template <class E, class C, int kHeadDim>
__device__ void score(float (&s)[2][4], const Query<kHeadDim>& q, std::uint32_t k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int key = lane % 8 + lane / 16 * 8, chunk = lane / 8 % 2;
  const std::uint32_t row = k + static_cast<unsigned>(key * 128);
#pragma unroll
  for (int step = 0; step < kHeadDim / 16; ++step) {
    const int column = step % 4 * 2 + chunk;
    std::uint32_t b[4];
    load_matrices(b, row + static_cast<unsigned>(step / 4 * C::kPanelBytes + ((column ^ (key & 7)) * 16)));
    multiply_add<E>(s[0], q[step], b[0], b[1]);
    multiply_add<E>(s[1], q[step], b[2], b[3]);
  }
}

/// Masks the keys outside [begin, end) of this warp's 16. end <= 16.
__device__ inline void mask_scores(float (&s)[2][4], int begin, int end) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = tile * 8 + lane % 4 * 2 + i % 2;
      if (key < begin || key >= end) s[tile][i] = -INFINITY;
    }
  }
}

/// Turns scores into the A fragment of the product with V and rescales what has been summed so far.
template <class E, int kHeadDim>
__device__ void soften(Rows<kHeadDim>& r, std::uint32_t (&p)[4], const float (&s)[2][4], float scale) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int a = 2 * half, b = a + 1;
    float largest = fmaxf(fmaxf(s[0][a], s[0][b]), fmaxf(s[1][a], s[1][b]));
    largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, 2));
    largest = fmaxf(r.largest[half], largest * scale);
    const float base = largest == -INFINITY ? 0.0F : largest;  // no key yet
    const float shrink = exp2_fast(r.largest[half] - base);
    const float e0 = exp2_fast(s[0][a] * scale - base), e1 = exp2_fast(s[0][b] * scale - base);
    const float e2 = exp2_fast(s[1][a] * scale - base), e3 = exp2_fast(s[1][b] * scale - base);
    r.largest[half] = largest;
    r.sum[half] = r.sum[half] * shrink + (e0 + e1) + (e2 + e3);
    p[half] = pack_two<E>(e0, e1);
    p[half + 2] = pack_two<E>(e2, e3);
    if (shrink != 1.0F) {
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; ++n) {
        r.o[n][a] *= shrink;
        r.o[n][b] *= shrink;
      }
    }
  }
}

/// o += p v of this warp's 16 keys.
template <class E, class C, int kHeadDim>
__device__ void weigh(Rows<kHeadDim>& r, const std::uint32_t (&p)[4], std::uint32_t v) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int key = lane % 16, chunk = lane / 16;
  const std::uint32_t row = v + static_cast<unsigned>(key * 128);
#pragma unroll
  for (int step = 0; step < kHeadDim / 16; ++step) {
    const int column = step % 4 * 2 + chunk;
    std::uint32_t b[4];
    load_matrices_transposed(b, row + static_cast<unsigned>(step / 4 * C::kPanelBytes + ((column ^ (key & 7)) * 16)));
    multiply_add<E>(r.o[2 * step], p, b[0], b[1]);
    multiply_add<E>(r.o[2 * step + 1], p, b[2], b[3]);
  }
}

/// Zeroes rows `end`.. of this warp's 16 of V: behind the last key a page holds anything, and 0 times NaN is NaN.
template <class C>
__device__ void clear_values(std::uint32_t v, int end) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int chunk = lane; chunk < (16 - end) * 8 * C::kPanels; chunk += 32) {
    const int panel = chunk / 8 / (16 - end), rest = chunk % (8 * (16 - end));
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(
                     v + static_cast<unsigned>(panel * C::kPanelBytes + end * 128 + rest * 16)),
                 "r"(0)
                 : "memory");
  }
  __syncwarp();
}

/// Computes the tiles of one item, from use n of the ring on.
template <class E, class C, int kHeadDim, int kStages>
__device__ void attend_item(Rows<kHeadDim>& r, const Task& t, const Part& p, const Ring<C, kStages>& ring, int n) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  Query<kHeadDim> q;
  load_query<E, kHeadDim>(q, t, p);
  if (n == 0) asm volatile("bar.sync 2, %0;" ::"n"(C::kThreads) : "memory");  // the barriers are set up
  for (int i = 0; i < p.tiles; ++i) {
    const std::uint32_t k = ring.stage(n + i) + static_cast<unsigned>(warp * 16 * 128), v = k + C::kTileBytes;
    const int key = (p.first_tile + i) * C::kKeys + warp * 16;
    ring.wait_full(n + i);
    float s[2][4] = {};
    score<E, C, kHeadDim>(s, q, k);
    if (key < t.first_key || key + 16 > t.context) {
      const int end = min(max(t.context - key, 0), 16);
      mask_scores(s, t.first_key - key, end);
      if (end < 16) clear_values<C>(v, end);
    }
    std::uint32_t weights[4];
    soften<E, kHeadDim>(r, weights, s, t.scale);
    weigh<E, C, kHeadDim>(r, weights, v);
    release(ring.empty(n + i));
  }
}

/// Writes this warp's rows into the merging stage: [kWarps][16][D] fp32, groups of 8 columns swizzled by the row so
/// that the eight rows of a store meet different banks. `scales`: [largest or sum][kWarps][16].
template <int kHeadDim, int kWarps>
__device__ void lay_down(const Rows<kHeadDim>& r, int group, float* merge, float* scales) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + 8 * half;
    float sum = r.sum[half] + __shfl_xor_sync(~0U, r.sum[half], 1);
    sum += __shfl_xor_sync(~0U, sum, 2);
    if (row >= group) continue;
    if (lane % 4 == 0) {
      scales[warp * 16 + row] = r.largest[half];
      scales[(kWarps + warp) * 16 + row] = sum;
    }
    float* to = merge + (warp * 16 + row) * kHeadDim + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      *reinterpret_cast<float2*>(to + 8 * (n ^ (row & 7))) = make_float2(r.o[n][2 * half], r.o[n][2 * half + 1]);
    }
  }
}

/// Writes the sum of the consumers' rows: o itself, or the partial results of a split.
template <class E, int kHeadDim, int kWarps>
__device__ void write_rows(const Task& t, const Part& p, const float* merge, const float* scales) {
  const std::int64_t first = (std::int64_t{p.sequence} * t.kv_heads + p.head) * t.group;
  constexpr int kPairs = kHeadDim / 2;
  for (int at = static_cast<int>(threadIdx.x); at < t.group * kPairs; at += 32 * kWarps) {
    const int row = at / kPairs, column = at % kPairs * 2;
    float top = -INFINITY, total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, scales[w * 16 + row]);
    const float base = top == -INFINITY ? 0.0F : top;
    float2 x = make_float2(0, 0);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float weight = exp2_fast(scales[w * 16 + row] - base);
      const float* from = merge + (w * 16 + row) * kHeadDim + (column ^ (row & 7) * 8);
      const float2 y = *reinterpret_cast<const float2*>(from);
      total += weight * scales[(kWarps + w) * 16 + row];
      x.x += weight * y.x;
      x.y += weight * y.y;
    }
    const float inverse = total > 0 ? 1.0F / total : 0.0F;
    if (t.splits == 1) {
      *reinterpret_cast<std::uint32_t*>(static_cast<E*>(t.o) + (first + row) * kHeadDim + column) =
          pack_two<E>(x.x * inverse, x.y * inverse);
    } else {
      const std::int64_t partial = (first + row) * t.splits + p.split;
      *reinterpret_cast<float2*>(t.partial_output + partial * kHeadDim + column) =
          make_float2(x.x * inverse, x.y * inverse);
      if (column == 0) t.partial_log_sum[partial] = total > 0 ? top + log2f(total) : -INFINITY;
    }
  }
}

template <int kWarps>
__device__ void wait_for_consumers() {
  asm volatile("bar.sync 1, %0;" ::"n"(32 * kWarps) : "memory");
}

template <class E, class C, int kHeadDim, int kWarps, int kStages>
__device__ void consume(const Task& t, const Ring<C, kStages>& ring, unsigned char* ring_memory) {
  int n = 0;
  for (int item = static_cast<int>(blockIdx.x); item < t.items; item += static_cast<int>(gridDim.x)) {
    const Part p = part_of<C::kKeys>(t, item);
    Rows<kHeadDim> r;
    attend_item<E, C, kHeadDim, kStages>(r, t, p, ring, n);
    n += p.tiles;
    auto* merge = reinterpret_cast<float*>(ring_memory + n % kStages * C::kStageBytes);
    auto* scales = reinterpret_cast<float*>(ring_memory + C::kRingBytes);
    ring.wait_full(n);
    wait_for_consumers<kWarps>();  // none still reads what the last item left here
    lay_down<kHeadDim, kWarps>(r, t.group, merge, scales);
    wait_for_consumers<kWarps>();
    write_rows<E, kHeadDim, kWarps>(t, p, merge, scales);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the copy engine writes here next
    release(ring.empty(n));
    ++n;
  }
}

template <class E, int kHeadDim, int kWarps, int kStages, int kCtasPerSm>
__global__ void __launch_bounds__(TileLayout<kHeadDim, kWarps, kStages>::kThreads, kCtasPerSm)
    attend(const __grid_constant__ CUtensorMap k_map, const __grid_constant__ CUtensorMap v_map,
           const __grid_constant__ Task t) {
  using C = TileLayout<kHeadDim, kWarps, kStages>;
  extern __shared__ unsigned char raw[];
  const std::uint32_t start = shared_address(raw);
  const Ring<C, kStages> ring{(start + 1023) / 1024 * 1024};  // one swizzle pattern is 1024 bytes
  if (threadIdx.x >= 32 * kWarps) {
    if (threadIdx.x == 32 * kWarps) {
      prefetch_map(&k_map);
      prefetch_map(&v_map);
    }
    produce<C, kStages>(t, ring, &k_map, &v_map);
  } else {
    consume<E, C, kHeadDim, kWarps, kStages>(t, ring, raw + (ring.start - start));
  }
  asm volatile("griddepcontrol.launch_dependents;");
}

}  // namespace plumbline::decode
