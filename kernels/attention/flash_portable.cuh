// Flash attention forward of mma.sync, ldmatrix and cp.async: any sm_80 or later, at most 100 KB of shared memory a CTA.
//
// A warp takes 32 query rows, so that a fragment of K or V is read from shared memory for two products; with 16 rows the
// reads would take longer than the products. Two CTAs an SM hide each other's softmax. Scores stay in registers and are
// the left operand of the second product as they are. docs/lab/flash_portable.md has what was tried.
#pragma once

#include <cstdint>

#include "kernels/common/mma_sync.cuh"
#include "kernels/common/vector.cuh"

namespace plumbline::flash_portable {

using device::kWarp;

/// One compiled kernel: kQTile queries of one head a CTA, kKvTile keys a step. kStages 2: K and V of the next step arrive
/// while this one's are multiplied. 1: one buffer each, V arrives under the first product and the softmax, the next K
/// under the second product.
template <class E_, int kHeadDim_, int kQTile_, int kKvTile_, int kStages_, int kCtas_>
struct Tiling {
  using E = E_;
  static constexpr int kHeadDim = kHeadDim_, kQTile = kQTile_, kKvTile = kKvTile_, kStages = kStages_, kCtas = kCtas_;
  static constexpr int kWarpRows = 32, kWarps = kQTile / kWarpRows, kThreads = kWarps * kWarp;
  static constexpr bool kHoldsQueries = kHeadDim <= 64;  // in registers; wider ones are read at each step
  static constexpr int kRowBytes = kHeadDim * 2, kChunks = kHeadDim / 8;  // 16 bytes each
  static constexpr int kQBytes = kQTile * kRowBytes, kKvBytes = kKvTile * kRowBytes;
  static constexpr int kVAt = kQBytes + kStages * kKvBytes;
  static constexpr int kSharedBytes = kVAt + kStages * kKvBytes;
  static_assert(kSharedBytes <= 99 * 1024 && kQTile % kWarpRows == 0 && kKvTile % 16 == 0 && kHeadDim % 64 == 0);
  static_assert(kStages == 1 || kStages == 2);
};

/// Everything a launch knows.
struct Task {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  int q_len, kv_len, q_heads, kv_heads, group, tiles, heads;  // heads: B x Hq
  bool causal;
  float scale;  // log2(e) / sqrt(D): exponents are of 2
};

/// Chunk `chunk` of a row lies at this one: eight rows that ldmatrix reads together take all 32 banks.
template <class T>
__device__ std::uint32_t at(int row, int chunk) {
  return static_cast<std::uint32_t>(row * T::kRowBytes + ((chunk ^ (row & 7)) << 4));
}

/// `kRows` rows of one head from `first` on, of which there are `length`, to shared memory; rows past the end are zeros.
template <class T, int kRows>
__device__ void fetch(std::uint32_t to, const typename T::E* from, std::int64_t stride, int first, int length) {
  constexpr int kAtOnce = T::kThreads / T::kChunks;
  constexpr int kTurns = kRows / kAtOnce, kUnrolled = kTurns > 8 ? 4 : kTurns;  // more addresses would be spilled
  static_assert(kRows % kAtOnce == 0);
  const int row = static_cast<int>(threadIdx.x) / T::kChunks, chunk = static_cast<int>(threadIdx.x) % T::kChunks;
#pragma unroll kUnrolled
  for (int i = 0; i < kTurns; ++i) {
    const int r = row + i * kAtOnce;
    const bool there = first + r < length;
    const auto* source = from + static_cast<std::int64_t>(there ? first + r : 0) * stride + chunk * 8;
    device::copy_async16(to + at<T>(r, chunk), source, there ? 16 : 0);
  }
}

/// One warp's 32 rows: thread t has columns 2 (t % 4) + {0, 1} of rows t / 4 + 8 {0, 1, 2, 3}.
template <class T>
class WarpTile {
 public:
  static constexpr int kScoreTiles = T::kKvTile / 8, kOutTiles = T::kHeadDim / 8;
  using E = typename T::E;

  __device__ WarpTile() {
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int n = 0; n < kOutTiles; ++n) out_[m][n][0] = out_[m][n][1] = out_[m][n][2] = out_[m][n][3] = 0;
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      base_[r] = -INFINITY;
      sum_[r] = 0;
    }
  }

  /// Before the first scores.
  __device__ void take_queries(std::uint32_t q) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    q_lane_ = q + at<T>(lane % 16, lane / 16);
    if constexpr (T::kHoldsQueries) {
#pragma unroll
      for (int c = 0; c < T::kHeadDim / 16; ++c) load_queries(held_[c], c);
    }
  }

  /// S = Q K^T of a block of keys.
  __device__ void scores(std::uint32_t k) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) s_[m][n][0] = s_[m][n][1] = s_[m][n][2] = s_[m][n][3] = 0;
    }
    const std::uint32_t k_lane = k + at<T>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
    for (int c = 0; c < T::kHeadDim / 16; ++c) {
      std::uint32_t read[2][4];
      if constexpr (!T::kHoldsQueries) load_queries(read, c);
      const auto& a = T::kHoldsQueries ? held_[T::kHoldsQueries ? c : 0] : read;
#pragma unroll
      for (int n = 0; n < kScoreTiles; n += 2) {
        std::uint32_t b[4];
        device::load_matrices(b, (k_lane ^ chunk_of(c)) + n * 8 * T::kRowBytes);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          device::multiply_add<E>(s_[m][n], a[m], b[0], b[1]);
          device::multiply_add<E>(s_[m][n + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  /// Keys from `seen` on, counted from the block's first for this thread's first row, do not exist; row i later sees
  /// `slope` times i more, at most `keys`.
  __device__ void mask(int seen, int slope, int keys) {
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int end = min(seen + slope * 8 * r, keys) - column;
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) {
        float* s = &s_[r / 2][n][r % 2 * 2];
        if (8 * n >= end) s[0] = -INFINITY;
        if (8 * n + 1 >= end) s[1] = -INFINITY;
      }
    }
  }

  /// Scores to exponentials in place, over `base_`, which follows the largest score only where that has grown by so much
  /// that the exponentials (2^kRoom at most) would lose their range: what was added before need seldom be scaled.
  __device__ void softmax(float scale) {
    constexpr float kRoom = 8;
    float largest[4];
    bool grown = false;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      float m = s_[r / 2][0][r % 2 * 2];
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) {
        m = fmaxf(m, fmaxf(s_[r / 2][n][r % 2 * 2], s_[r / 2][n][r % 2 * 2 + 1]));
      }
      m = fmaxf(m, __shfl_xor_sync(~0U, m, 1));
      largest[r] = fmaxf(m, __shfl_xor_sync(~0U, m, 2)) * scale;
      grown = grown || largest[r] > base_[r] + kRoom;
    }
    if (__any_sync(~0U, grown)) rebase(largest);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float shift = base_[r] == -INFINITY ? 0.0F : -base_[r];
      float even = 0, odd = 0;
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) {
        float* s = &s_[r / 2][n][r % 2 * 2];
        s[0] = device::exp2_approx(fmaf(s[0], scale, shift));
        s[1] = device::exp2_approx(fmaf(s[1], scale, shift));
        even += s[0];
        odd += s[1];
      }
      sum_[r] += even + odd;
    }
  }

  /// O += P V.
  __device__ void add_values(std::uint32_t v) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const std::uint32_t v_lane = v + at<T>(lane % 16, lane / 16);
#pragma unroll
    for (int key = 0; key < T::kKvTile / 16; ++key) {
      std::uint32_t p[2][4];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          p[m][i] = device::pack_two<E>(s_[m][2 * key + i / 2][i % 2 * 2], s_[m][2 * key + i / 2][i % 2 * 2 + 1]);
      }
#pragma unroll
      for (int n = 0; n < kOutTiles; n += 2) {
        std::uint32_t b[4];
        device::load_transposed(b, (v_lane ^ static_cast<std::uint32_t>(n << 4)) + key * 16 * T::kRowBytes);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          device::multiply_add<E>(out_[m][n], p[m], b[0], b[1]);
          device::multiply_add<E>(out_[m][n + 1], p[m], b[2], b[3]);
        }
      }
    }
  }

  /// O over the sums, to the warp's rows of shared memory.
  __device__ void leave(unsigned char* rows) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      float sum = sum_[r];
      sum += __shfl_xor_sync(~0U, sum, 1);
      sum += __shfl_xor_sync(~0U, sum, 2);
      const float over = 1.0F / sum;
      const int row = lane / 4 + 8 * r;
#pragma unroll
      for (int n = 0; n < kOutTiles; ++n) {
        const float* o = &out_[r / 2][n][r % 2 * 2];
        *reinterpret_cast<std::uint32_t*>(rows + at<T>(row, n) + lane % 4 * 4) =
            device::pack_two<E>(o[0] * over, o[1] * over);
      }
    }
  }

 private:
  /// 16 columns on, two chunks of 16 bytes: above the swizzle's lowest bit.
  static __device__ std::uint32_t chunk_of(int c) { return static_cast<std::uint32_t>(c << 5); }
  __device__ void load_queries(std::uint32_t (&a)[2][4], int c) const {
    device::load_matrices(a[0], q_lane_ ^ chunk_of(c));
    device::load_matrices(a[1], (q_lane_ ^ chunk_of(c)) + 16 * T::kRowBytes);
  }
  __device__ void rebase(const float (&largest)[4]) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float next = fmaxf(base_[r], largest[r]);
      const float kept = base_[r] == -INFINITY ? 0.0F : device::exp2_approx(base_[r] - next);
      base_[r] = next;
      sum_[r] *= kept;
#pragma unroll
      for (int n = 0; n < kOutTiles; ++n) {
        out_[r / 2][n][r % 2 * 2] *= kept;
        out_[r / 2][n][r % 2 * 2 + 1] *= kept;
      }
    }
  }

  float out_[2][kOutTiles][4], s_[2][kScoreTiles][4];
  float base_[4], sum_[4];
  std::uint32_t q_lane_ = 0, held_[T::kHoldsQueries ? T::kHeadDim / 16 : 1][2][4];
};

/// The tile of this CTA. Not causal: those of a head follow each other and share its K and V in L2. Causal: long ones
/// first, of all heads, to even out the end.
struct Place {
  int tile, head;
  __device__ explicit Place(const Task& task) {
    const int i = static_cast<int>(blockIdx.x);
    head = task.causal ? i % task.heads : i / task.tiles;
    tile = task.causal ? task.tiles - 1 - i / task.heads : i % task.tiles;
  }
};

template <class T>
__device__ void store_rows(const unsigned char* shared, typename T::E* o, std::int64_t stride, int rows) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int i = lane; i < T::kWarpRows * T::kChunks; i += kWarp) {
    const int row = i / T::kChunks, chunk = i % T::kChunks;
    if (row >= rows) continue;
    *reinterpret_cast<uint4*>(o + row * stride + chunk * 8) =
        *reinterpret_cast<const uint4*>(shared + at<T>(row, chunk));
  }
}

/// The steps of one CTA: blocks of keys come in, warps that see a block take it.
template <class T>
class Steps {
 public:
  using E = typename T::E;
  __device__ Steps(const Task& task, const E* k, const E* v, std::uint32_t shared, int row, int warp_row)
      : k_(k),
        v_(v),
        stride_(std::int64_t{task.kv_heads} * T::kHeadDim),
        shared_(shared),
        kv_len_(task.kv_len),
        slope_(task.causal ? 1 : 0),
        warp_row_(warp_row),
        warp_sees_(
            min(task.kv_len, task.causal ? task.kv_len - task.q_len + row + warp_row + T::kWarpRows : task.kv_len)),
        first_sees_(task.causal ? task.kv_len - task.q_len + row + warp_row + 1 : task.kv_len),
        scale_(task.scale),
        end_((min(task.kv_len, task.causal ? task.kv_len - task.q_len + row + T::kQTile : task.kv_len) + T::kKvTile -
              1) /
             T::kKvTile) {}

  /// Q is on its way already.
  __device__ void run(WarpTile<T>& tile) const {
    fetch_k(0);
    if constexpr (T::kStages == 2) fetch_v(0);
    device::commit_copies();
    for (int j = 0; j < end_; ++j) {
      device::wait_copies<0>();
      __syncthreads();  // this step's keys have arrived, and nobody reads the last one's values any more
      if constexpr (T::kStages == 2) {
        if (j + 1 < end_) {
          fetch_k(j + 1);
          fetch_v(j + 1);
        }
      } else {
        fetch_v(j);
      }
      device::commit_copies();
      const bool sees = j * T::kKvTile < warp_sees_;
      if (sees) weigh(tile, j);
      if constexpr (T::kStages == 1) {
        device::wait_copies<0>();
        __syncthreads();  // this step's values have arrived, and nobody reads its keys any more
        if (j + 1 < end_) fetch_k(j + 1);
        device::commit_copies();
      }
      if (sees) tile.add_values(slot(T::kVAt, j));
    }
  }

 private:
  __device__ std::uint32_t slot(int from, int step) const {
    return shared_ + static_cast<std::uint32_t>(from + step % T::kStages * T::kKvBytes);
  }
  __device__ void fetch_k(int step) const {
    fetch<T, T::kKvTile>(slot(T::kQBytes, step), k_, stride_, step * T::kKvTile, kv_len_);
  }
  __device__ void fetch_v(int step) const {
    fetch<T, T::kKvTile>(slot(T::kVAt, step), v_, stride_, step * T::kKvTile, kv_len_);
  }
  /// Scores of a block, masked where some row does not see all of it, to exponentials.
  __device__ void weigh(WarpTile<T>& tile, int step) const {
    if (step == 0) tile.take_queries(shared_ + static_cast<std::uint32_t>(warp_row_ * T::kRowBytes));
    tile.scores(slot(T::kQBytes, step));
    const int first = step * T::kKvTile;
    if (first + T::kKvTile > min(first_sees_, kv_len_)) {
      const int lane_row = static_cast<int>(threadIdx.x) % kWarp / 4;
      tile.mask(first_sees_ + slope_ * lane_row - first, slope_, kv_len_ - first);
    }
    tile.softmax(scale_);
  }

  const E* k_;
  const E* v_;
  std::int64_t stride_;
  std::uint32_t shared_;
  int kv_len_, slope_, warp_row_;
  int warp_sees_, first_sees_;  // keys that the warp's last row sees, and its first
  float scale_;
  int end_;  // blocks
};

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kCtas) flash_portable(const __grid_constant__ Task task) {
  using E = typename T::E;
  extern __shared__ __align__(128) unsigned char shared[];
  const Place place(task);
  const int row = place.tile * T::kQTile, batch = place.head / task.q_heads, head = place.head % task.q_heads;
  const int warp_row = static_cast<int>(threadIdx.x) / kWarp * T::kWarpRows;
  const std::int64_t q_stride = std::int64_t{task.q_heads} * T::kHeadDim;
  const std::int64_t q_at = std::int64_t{batch} * task.q_len * q_stride + std::int64_t{head} * T::kHeadDim;
  const std::int64_t kv_at = (std::int64_t{batch} * task.kv_len * task.kv_heads + head / task.group) * T::kHeadDim;
  const std::uint32_t base = device::shared_address(shared);
  fetch<T, T::kQTile>(base, static_cast<const E*>(task.q) + q_at, q_stride, row, task.q_len);
  WarpTile<T> tile;
  Steps<T>(task, static_cast<const E*>(task.k) + kv_at, static_cast<const E*>(task.v) + kv_at, base, row, warp_row)
      .run(tile);
  unsigned char* rows = shared + warp_row * T::kRowBytes;  // its own queries', which it has read
  tile.leave(rows);
  __syncwarp();
  store_rows<T>(rows, static_cast<E*>(task.o) + q_at + std::int64_t{row + warp_row} * q_stride, q_stride,
                task.q_len - row - warp_row);
}

}  // namespace plumbline::flash_portable
