// Split-KV decode attention, the device side of decode.cu (the variants note is there).
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/decode_ptx.cuh"

namespace plumbline::decode {

/// What a launch works on. A box is `box_tokens` tokens of one page (or of a contiguous cache) of one KV head.
struct Task {
  const __nv_bfloat16* q;     ///< [B, Hq, D]
  __nv_bfloat16* o;           ///< [B, Hq, D]; written when `splits` is 1
  float* partial_output;      ///< decode.cuh
  float* partial_log_sum;     ///< decode.cuh
  const std::int32_t* table;  ///< [B, table_width]; null: contiguous
  int table_width, page;      ///< pages a sequence; tokens a page
  int kv_heads, group;        ///< query heads a KV head
  int first_key, context;     ///< the keys seen are first_key .. context - 1
  int splits, box_tokens, early;
  float scale;  ///< log2(e) / sqrt(D)
};

/// A CTA: kWarps consumers of 16 keys each and one producer warp. A stage holds K and V of kKeys tokens as panels of 64
/// columns: [keys][64] bf16, rows of 128 bytes, 16-byte chunks swizzled by the copy engine.
template <int kHeadDim, int kWarps, int kStages>
struct Cut {
  static constexpr int kKeys = 16 * kWarps;
  static constexpr int kThreads = 32 * (kWarps + 1);
  static constexpr int kPanels = kHeadDim / 64;
  static constexpr int kPanelBytes = kKeys * 128;
  static constexpr int kTileBytes = kPanels * kPanelBytes;  // of K; V the same
  static constexpr int kStageBytes = 2 * kTileBytes;
  static constexpr int kRingBytes = kStages * kStageBytes;
  // consumers' results are merged in the ring once it is empty
  static constexpr int kMergeBytes = kWarps * 16 * (kHeadDim + 2) * 4;
  static_assert(kMergeBytes <= kRingBytes);
  static constexpr int kSharedBytes = kRingBytes + 1024 + kStages * 16;  // room to align, full and empty barriers
};

/// What one CTA does: its sequence, KV head and tiles of kKeys tokens.
struct Part {
  int sequence, head, split, first_tile, tiles;
};
template <int kKeys>
__device__ Part part_of(const Task& t) {
  Part p;
  const int b = static_cast<int>(blockIdx.x);
  p.head = b % t.kv_heads;  // neighbours read neighbouring rows of the same tokens
  p.split = b / t.kv_heads % t.splits;
  p.sequence = b / t.kv_heads / t.splits;
  const int begin = t.first_key / kKeys, all = (t.context + kKeys - 1) / kKeys - begin;
  const auto cut = [&](int i) { return static_cast<int>(static_cast<long long>(all) * i / t.splits); };
  p.first_tile = begin + cut(p.split);
  p.tiles = begin + cut(p.split + 1) - p.first_tile;
  return p;
}

/// The producer warp: lane i loads box i of a tile. Page numbers are read 32 at a time, a batch ahead of use.
template <class C, int kStages>
class Producer {
 public:
  __device__ Producer(const Task& t, const Part& p, const CUtensorMap* k_map, const CUtensorMap* v_map,
                      std::uint32_t ring, std::uint32_t full, std::uint32_t empty)
      : t_(t), p_(p), ring_(ring), full_(full), empty_(empty) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    first_page_ = p.first_tile * C::kKeys / t.page;
    held_ = page_number(lane);
    next_ = page_number(32 + lane);
    boxes_ = C::kKeys / t.box_tokens;
    box_ = lane % boxes_;
    panel_ = lane / boxes_ % C::kPanels;
    const bool value = lane / boxes_ / C::kPanels != 0;
    map_ = value ? v_map : k_map;
    busy_ = lane < boxes_ * C::kPanels * 2;
    offset_ = static_cast<unsigned>((value ? C::kTileBytes : 0) + panel_ * C::kPanelBytes + box_ * t.box_tokens * 128);
  }

  __device__ void load_tile(int i) {
    const int stage = i % kStages, start = (p_.first_tile + i) * C::kKeys, token = start + box_ * t_.box_tokens;
    if (start / t_.page - first_page_ >= held_from_ + 32) {  // a tile's boxes lie in one batch
      held_ = next_;
      held_from_ += 32;
      next_ = page_number(held_from_ + 32 + static_cast<int>(threadIdx.x) % 32);
    }
    const int page = __shfl_sync(~0U, held_, token / t_.page - first_page_ - held_from_);
    if (i >= kStages) barrier_wait(empty_ + 8 * stage, static_cast<unsigned>(i / kStages - 1) & 1);
    if (threadIdx.x % 32 == 0) {
      const int there = min(boxes_, (t_.context - start + t_.box_tokens - 1) / t_.box_tokens);
      barrier_expect(full_ + 8 * stage, static_cast<unsigned>(there * t_.box_tokens * 128 * C::kPanels * 2));
    }
    __syncwarp();
    if (busy_ && token < t_.context) {
      load_box(ring_ + stage * C::kStageBytes + offset_, map_, full_ + 8 * stage, panel_ * 64, p_.head, token % t_.page,
               page);
    }
  }

 private:
  /// Of this sequence, counted from the part's first.
  __device__ int page_number(int ordinal) const {
    const int at = first_page_ + ordinal;
    return t_.table != nullptr && at < t_.table_width
               ? __ldg(t_.table + std::int64_t{p_.sequence} * t_.table_width + at)
               : p_.sequence;
  }

  const Task& t_;
  const Part& p_;
  const CUtensorMap* map_;
  std::uint32_t ring_, full_, empty_, offset_;
  int first_page_, held_, next_, held_from_ = 0, boxes_, box_, panel_;
  bool busy_;
};

/// Running softmax of 16 query rows in the layout of mma accumulators: a thread has rows lane / 4 and that + 8.
template <int kHeadDim>
struct Rows {
  float o[kHeadDim / 8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  ///< this thread's columns only
};

template <int kHeadDim>
using Query = std::uint32_t[kHeadDim / 16][4];

/// A fragments of the packed query heads; rows beyond the group are zero.
template <int kHeadDim>
__device__ void load_query(Query<kHeadDim>& q, const Task& t, const Part& p) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first = (std::int64_t{p.sequence} * t.kv_heads + p.head) * t.group;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + 8 * half;
    const auto* from = reinterpret_cast<const std::uint32_t*>(t.q + (first + row) * kHeadDim) + lane % 4;
#pragma unroll
    for (int k = 0; k < kHeadDim / 16; ++k) {
      q[k][half] = row < t.group ? from[8 * k] : 0;
      q[k][half + 2] = row < t.group ? from[8 * k + 4] : 0;
    }
  }
}

/// scores[16 rows, 16 keys] = q k^T of this warp's keys; `k` is the first of their rows in the stage.
template <class C, int kHeadDim>
__device__ void score(float (&s)[2][4], const Query<kHeadDim>& q, std::uint32_t k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int key = lane % 8 + lane / 16 * 8, chunk = lane / 8 % 2;
  const std::uint32_t row = k + static_cast<unsigned>(key * 128);
#pragma unroll
  for (int step = 0; step < kHeadDim / 16; ++step) {
    const int column = step % 4 * 2 + chunk;
    std::uint32_t b[4];
    load_matrices(b, row + static_cast<unsigned>(step / 4 * C::kPanelBytes + ((column ^ (key & 7)) * 16)));
    multiply_add(s[0], q[step], b[0], b[1]);
    multiply_add(s[1], q[step], b[2], b[3]);
  }
}

/// Keys outside [begin, end) of this warp's 16 count nothing. end <= 16.
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
template <int kHeadDim>
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
    p[half] = pack_bf16(e0, e1);
    p[half + 2] = pack_bf16(e2, e3);
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
template <class C, int kHeadDim>
__device__ void weigh(Rows<kHeadDim>& r, const std::uint32_t (&p)[4], std::uint32_t v) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int key = lane % 16, chunk = lane / 16;
  const std::uint32_t row = v + static_cast<unsigned>(key * 128);
#pragma unroll
  for (int step = 0; step < kHeadDim / 16; ++step) {
    const int column = step % 4 * 2 + chunk;
    std::uint32_t b[4];
    load_matrices_transposed(b, row + static_cast<unsigned>(step / 4 * C::kPanelBytes + ((column ^ (key & 7)) * 16)));
    multiply_add(r.o[2 * step], p, b[0], b[1]);
    multiply_add(r.o[2 * step + 1], p, b[2], b[3]);
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

template <class C, int kHeadDim, int kStages>
__device__ void consume(Rows<kHeadDim>& r, const Task& t, const Part& p, std::uint32_t ring, std::uint32_t full,
                        std::uint32_t empty) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  Query<kHeadDim> q;
  load_query<kHeadDim>(q, t, p);
  __syncthreads();  // the producer has set up the barriers
  for (int i = 0; i < p.tiles; ++i) {
    const int stage = i % kStages;
    const std::uint32_t k = ring + static_cast<unsigned>(stage * C::kStageBytes + warp * 16 * 128);
    const std::uint32_t v = k + C::kTileBytes;
    const int key = (p.first_tile + i) * C::kKeys + warp * 16;
    barrier_wait(full + 8 * stage, static_cast<unsigned>(i / kStages) & 1);
    float s[2][4] = {};
    score<C, kHeadDim>(s, q, k);
    if (key < t.first_key || key + 16 > t.context) {
      const int end = min(max(t.context - key, 0), 16);
      mask_scores(s, t.first_key - key, end);
      if (end < 16) clear_values<C>(v, end);
    }
    std::uint32_t weights[4];
    soften<kHeadDim>(r, weights, s, t.scale);
    weigh<C, kHeadDim>(r, weights, v);
    __syncwarp();
    if (lane == 0) barrier_arrive(empty + 8 * stage);
  }
}

template <int kWarps>
__device__ void wait_for_consumers() {
  asm volatile("bar.sync 1, %0;" ::"n"(32 * kWarps) : "memory");
}

/// Sums the consumers' rows and writes o, or the partial results of a split. `merge`: kWarps x 16 x D outputs, then as
/// many largest scores and sums, in the ring, which is empty by now.
template <class C, int kHeadDim, int kWarps>
__device__ void finish(Rows<kHeadDim>& r, const Task& t, const Part& p, float* merge) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  float* largest = merge + kWarps * 16 * kHeadDim;
  float* sums = largest + kWarps * 16;
  wait_for_consumers<kWarps>();  // every warp has read its last stage
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + 8 * half;
    float sum = r.sum[half] + __shfl_xor_sync(~0U, r.sum[half], 1);
    sum += __shfl_xor_sync(~0U, sum, 2);
    if (row >= t.group) continue;
    if (lane % 4 == 0) {
      largest[warp * 16 + row] = r.largest[half];
      sums[warp * 16 + row] = sum;
    }
    float* to = merge + (warp * 16 + row) * kHeadDim + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      *reinterpret_cast<float2*>(to + 8 * n) = make_float2(r.o[n][2 * half], r.o[n][2 * half + 1]);
    }
  }
  wait_for_consumers<kWarps>();
  const std::int64_t first = (std::int64_t{p.sequence} * t.kv_heads + p.head) * t.group;
  constexpr int kPairs = kHeadDim / 2;
  for (int at = static_cast<int>(threadIdx.x); at < t.group * kPairs; at += 32 * kWarps) {
    const int row = at / kPairs, column = at % kPairs * 2;
    float top = -INFINITY, total = 0;
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, largest[w * 16 + row]);
    const float base = top == -INFINITY ? 0.0F : top;
    float2 x = make_float2(0, 0);
    for (int w = 0; w < kWarps; ++w) {
      const float weight = exp2_fast(largest[w * 16 + row] - base);
      const float2 y = *reinterpret_cast<const float2*>(merge + (w * 16 + row) * kHeadDim + column);
      total += weight * sums[w * 16 + row];
      x.x += weight * y.x;
      x.y += weight * y.y;
    }
    const float inverse = total > 0 ? 1.0F / total : 0.0F;
    if (t.splits == 1) {
      *reinterpret_cast<std::uint32_t*>(t.o + (first + row) * kHeadDim + column) =
          pack_bf16(x.x * inverse, x.y * inverse);
    } else {
      const std::int64_t partial = (first + row) * t.splits + p.split;
      *reinterpret_cast<float2*>(t.partial_output + partial * kHeadDim + column) =
          make_float2(x.x * inverse, x.y * inverse);
      if (column == 0) t.partial_log_sum[partial] = total > 0 ? top + log2f(total) : -INFINITY;
    }
  }
}

template <int kHeadDim, int kWarps, int kStages, int kCtasPerSm>
__global__ void __launch_bounds__(Cut<kHeadDim, kWarps, kStages>::kThreads, kCtasPerSm)
    attend(const __grid_constant__ CUtensorMap k_map, const __grid_constant__ CUtensorMap v_map,
           const __grid_constant__ Task t) {
  using C = Cut<kHeadDim, kWarps, kStages>;
  extern __shared__ unsigned char raw[];
  const std::uint32_t start = shared_address(raw);
  const std::uint32_t ring = (start + 1023) / 1024 * 1024;  // one swizzle pattern is 1024 bytes
  const std::uint32_t full = ring + C::kRingBytes, empty = full + 8 * kStages;
  const Part p = part_of<C::kKeys>(t);
  if (t.early) asm volatile("griddepcontrol.launch_dependents;");
  if (threadIdx.x >= 32 * kWarps) {  // its first loads do not wait for anybody
    if (threadIdx.x == 32 * kWarps) {
      prefetch_map(&k_map);
      prefetch_map(&v_map);
    }
    Producer<C, kStages> producer(t, p, &k_map, &v_map, ring, full, empty);
    if (threadIdx.x == 32 * kWarps) {
      for (int i = 0; i < kStages; ++i) {
        barrier_init(full + 8 * i, 1);
        barrier_init(empty + 8 * i, kWarps);
      }
      barrier_publish();
    }
    __syncwarp();
    const int ahead = min(p.tiles, kStages);
    for (int i = 0; i < ahead; ++i) producer.load_tile(i);
    __syncthreads();
    for (int i = ahead; i < p.tiles; ++i) producer.load_tile(i);
    asm volatile("griddepcontrol.launch_dependents;");
    return;
  }
  Rows<kHeadDim> r;
  consume<C, kHeadDim, kStages>(r, t, p, ring, full, empty);
  asm volatile("griddepcontrol.launch_dependents;");
  finish<C, kHeadDim, kWarps>(r, t, p, reinterpret_cast<float*>(raw + (ring - start)));
}

}  // namespace plumbline::decode
