// One row of a matrix in the registers of the threads that share it, and reductions over those threads.
//
// A row is read from DRAM once, whatever its length: a warp, a CTA, or a cluster of CTAs holds it raw, as bf16 or fp16.
#pragma once

#include <cstdint>

#include "kernels/common/vector16.cuh"

namespace plumbline::device {

constexpr int kMaxCluster = 8;  ///< the largest that every GPU with clusters takes

__device__ inline int cluster_rank() {
  std::uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
__device__ inline int cluster_size() {
  std::uint32_t size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return static_cast<int>(size);
}
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

/// The same variable in the shared memory of another CTA of the cluster, as a generic address.
template <class T>
__device__ T* in_cta(T* own, int rank) {
  std::uint64_t address;
  asm("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(reinterpret_cast<std::uint64_t>(own)), "r"(rank));
  return reinterpret_cast<T*>(address);
}

/// The threads that share one row: a warp, a CTA, or (kClustered) all CTAs of a cluster.
template <int kThreads_, bool kClustered_>
struct Team {
  static constexpr int kThreads = kThreads_, kWarps = (kThreads + kWarp - 1) / kWarp;
  static constexpr bool kClustered = kClustered_;

  /// Must come first: reduce() writes into the shared memory of other CTAs, which exists once all have arrived.
  static __device__ void start() {
    if constexpr (kClustered) cluster_arrive();
  }
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % kThreads; }
  static __device__ int rank() { return kClustered ? cluster_rank() : 0; }
  static __device__ bool leads() { return lane() == 0 && rank() == 0; }

  /// `value` combined over all threads, which all get the result, in an order that does not change between runs.
  /// `none` changes nothing. One call a kernel and T: the slots are not guarded against a second.
  template <class T, class F>
  static __device__ T reduce(T value, T none, F combine) {
    value = within_warp<kWarp>(value, combine);
    if constexpr (kWarps > 1 || kClustered) {
      __shared__ T slots[kWarps * (kClustered ? kMaxCluster : 1)];
      const int warp = static_cast<int>(threadIdx.x) / kWarp, in_warp = static_cast<int>(threadIdx.x) % kWarp;
      if constexpr (kClustered) {
        const int size = cluster_size();
        cluster_wait();
        if (in_warp < size) *in_cta(&slots[cluster_rank() * kWarps + warp], in_warp) = value;
        cluster_arrive();
        cluster_wait();
        value = none;
        for (int i = in_warp; i < size * kWarps; i += kWarp) value = combine(value, slots[i]);
        value = within_warp<kWarp>(value, combine);
      } else {
        if (in_warp == 0) slots[warp] = value;
        __syncthreads();
        if constexpr ((kWarps & (kWarps - 1)) == 0) {
          value = within_warp<kWarps>(slots[in_warp % kWarps], combine);
        } else {
          value = within_warp<kWarp>(in_warp < kWarps ? slots[in_warp] : none, combine);
        }
      }
    }
    return value;
  }

 private:
  template <int kLanes, class T, class F>
  static __device__ T within_warp(T value, F combine) {
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) value = combine(value, shuffle_xor(value, step));
    return value;
  }
};

/// The columns [first, first + count) of one row: all of it, or what this CTA of a cluster has of it.
struct Part {
  int first, count;
};

/// Equal parts of whole vectors.
template <class Team>
__device__ Part part_of_row(int cols) {
  if constexpr (!Team::kClustered) return {0, cols};
  const int each = ((cols + kVector - 1) / kVector + cluster_size() - 1) / cluster_size() * kVector;
  const int first = min(cols, each * cluster_rank());
  return {first, min(cols - first, each)};
}

/// What one thread holds of a part of a row of E: kVecs vectors. `kWhole`: rows are whole vectors. Otherwise the threads
/// hold the aligned vectors that cover the row, which begin `skip` elements before it; the vectors at its ends are read
/// and written element by element.
template <class Team, int kVecs, bool kWhole, class E>
struct HeldRow {
  using Element = E;
  uint4 held[kVecs];
  Part part;
  int skip;

  /// The place of element j of vector i within the part; it lies outside for the first `skip` and behind the end.
  __device__ int column(int i, int j) const {
    return (i * Team::kThreads + Team::lane()) * kVector + j - (kWhole ? 0 : skip);
  }
  __device__ bool has(int i, int j) const {
    return static_cast<unsigned>(column(i, j)) < static_cast<unsigned>(part.count);
  }
  /// Whether any element of vector i can lie in the part; whether all of them do.
  __device__ bool has(int i) const { return column(i, 0) < part.count; }
  __device__ bool inside(int i) const {
    return kWhole ? has(i) : column(i, 0) >= 0 && column(i, 0) + kVector <= part.count;
  }

  /// The row that begins at element `start` of x; places outside the part hold `fill`.
  __device__ HeldRow(const E* x, std::int64_t start, Part part_, float fill)
      : part(part_), skip(kWhole ? 0 : static_cast<int>((start + part_.first) % kVector)) {
#pragma unroll
    for (int i = 0; i < kVecs; ++i) held[i] = load(x + start + part.first, i, fill);
  }

  /// `from`: where the part begins.
  __device__ uint4 load(const E* from, int i, float fill) const {
    if constexpr (kWhole) return has(i) ? load_vector(from + column(i, 0)) : filled(fill);
    return inside(i) ? load_vector(from + column(i, 0)) : load_singly(from, i, fill);
  }

  /// The same for a row of parameters that all rows share, which has an alignment of its own.
  __device__ uint4 load_parameter(const E* row, int i) const {
    if constexpr (kWhole) {
      return has(i) ? __ldg(reinterpret_cast<const uint4*>(row + part.first + column(i, 0))) : filled(0.0F);
    } else {
      return load_singly(row + part.first, i, 0.0F);
    }
  }

  __device__ static uint4 filled(float fill) {
    const std::uint32_t pair = pack_two<E>(fill, fill);
    return make_uint4(pair, pair, pair, pair);
  }
  __device__ uint4 load_singly(const E* from, int i, float fill) const {
    if (!has(i)) return filled(fill);
    float x[kVector];
#pragma unroll
    for (int j = 0; j < kVector; ++j) x[j] = has(i, j) ? to_float(from[column(i, j)]) : fill;
    return pack_as<E>(x);
  }

  __device__ void store(E* to, int i, const float (&x)[kVector]) const {
    if (inside(i)) {
      *reinterpret_cast<uint4*>(to + column(i, 0)) = pack_as<E>(x);
    } else if constexpr (!kWhole) {
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        if (has(i, j)) to[column(i, j)] = rounded<E>(x[j]);
      }
    }
  }

  /// The same in fp8 (e4m3, the nearest; beyond its range the largest).
  __device__ void store_e4m3(std::uint8_t* to, int i, const float (&x)[kVector]) const {
    std::uint32_t words[2];
#pragma unroll
    for (int w = 0; w < 2; ++w) {
      words[w] = pair_to_e4m3(x[4 * w], x[4 * w + 1]) | pair_to_e4m3(x[4 * w + 2], x[4 * w + 3]) << 16;
    }
    if (inside(i)) {
      *reinterpret_cast<uint2*>(to + column(i, 0)) = make_uint2(words[0], words[1]);
    } else if constexpr (!kWhole) {
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        if (has(i, j)) to[column(i, j)] = static_cast<std::uint8_t>(words[j / 4] >> (8 * (j % 4)));
      }
    }
  }

  /// Adds `second` and writes the rounded sum, a few vectors at a time: all at once would not fit the registers.
  __device__ void add(const E* second, E* sum) {
    constexpr int kBatch = kVecs % 4 == 0 ? 4 : kVecs % 3 == 0 ? 3 : kVecs;
#pragma unroll
    for (int batch = 0; batch < kVecs; batch += kBatch) {
      uint4 other[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) other[i] = load(second + part.first, batch + i, 0.0F);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        float x[kVector], r[kVector];
        unpack_as<E>(held[batch + i], x);
        unpack_as<E>(other[i], r);
#pragma unroll
        for (int j = 0; j < kVector; ++j) x[j] += r[j];
        held[batch + i] = pack_as<E>(x);
        store(sum + part.first, batch + i, x);
      }
    }
  }

  /// f(element) for every place, `fill` among them.
  template <class F>
  __device__ void for_each(F f) const {
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      float x[kVector];
      unpack_as<E>(held[i], x);
#pragma unroll
      for (int j = 0; j < kVector; ++j) f(x[j]);
    }
  }

  /// f(element) for every element there is.
  template <class F>
  __device__ void for_each_present(F f) const {
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      if (!has(i)) continue;
      float x[kVector];
      unpack_as<E>(held[i], x);
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        if (kWhole || has(i, j)) f(x[j]);
      }
    }
  }
};

}  // namespace plumbline::device
