// The flash attention forward kernel: its producer and its consumers. flash_tiles.cuh says how the work is divided.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/attention/flash_tiles.cuh"
#include "kernels/attention/flash_wgmma.cuh"

namespace plumbline::flash {

// --- producer -------------------------------------------------------------------------------------------------------

/// Fills a slot with `rows` rows of one head from `row` on, as D / 64 tiles of 64 columns each.
template <class T, int kStages>
__device__ inline void load_rows(Slot<kStages> slot, std::uint32_t ring, std::uint32_t ring_full,
                                 const CUtensorMap* map, int rows, int head, int row, int batch) {
  const std::uint32_t full = ring_full + 16 * slot.stage(), bytes = rows * T::kHeadDim * 2;
  const std::uint32_t to = ring + slot.stage() * bytes;
  barrier_wait(Barriers<T>::empty(full), slot.parity() ^ 1);
  barrier_expect(full, bytes);
#pragma unroll
  for (int c = 0; c < T::kHeadDim / 64; ++c) load_box(to + c * rows * T::kRow, map, full, 64 * c, head, row, batch);
}

/// One thread fills the rings: Q, K0, then K(j) ahead of V(j-1), as they will be asked for.
template <class T>
__device__ inline void produce(const Task& task, const CUtensorMap* q, const CUtensorMap* k, const CUtensorMap* v,
                               std::uint32_t shared, const Barriers<T>& barriers) {
  using KvSlot = Slot<T::kStages>;
  unsigned tiles = 0, blocks = 0;
  for (Walk<T> walk(task); walk.next(); ++tiles) {
    const int kv_head = walk.head() / task.group, batch = walk.batch(), end = walk.blocks();
    load_rows<T>(Slot<T::kQStages>{tiles}, shared, barriers.q_full(0), q, T::kQTile, walk.head(), walk.row(), batch);
    for (int j = 0; j <= end; ++j) {
      if (j < end) {
        load_rows<T>(KvSlot{blocks + j}, shared + T::kKAt, barriers.k_full(0), k, T::kKvTile, kv_head, j * T::kKvTile,
                     batch);
      }
      if (j > 0) {
        load_rows<T>(KvSlot{blocks + j - 1}, shared + T::kVAt, barriers.v_full(0), v, T::kKvTile, kv_head,
                     (j - 1) * T::kKvTile, batch);
      }
    }
    blocks += end;
  }
}

// --- consumers ------------------------------------------------------------------------------------------------------

__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline std::uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

/// Words w[i] of the four threads of a quad, transposed: afterwards thread t has word t of each.
__device__ inline void transpose_quad(std::uint32_t (&w)[4]) {
#pragma unroll
  for (int bit = 1; bit < 4; bit *= 2) {
    const bool upper = threadIdx.x & bit;
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const int low = bit == 1 ? 2 * pair : pair, high = low + bit;
      const std::uint32_t got = __shfl_xor_sync(~0U, upper ? w[low] : w[high], bit);
      if (upper) {
        w[low] = got;
      } else {
        w[high] = got;
      }
    }
  }
}

template <class F>
__device__ inline float over_quad(float x, F combine) {
  x = combine(x, __shfl_xor_sync(~0U, x, 1));
  return combine(x, __shfl_xor_sync(~0U, x, 2));
}

/// What a thread holds of its two rows (r and r + 8 of its warp's 16): it holds columns 8 i + 2 (lane % 4) + {0, 1} of
/// each, as s[4 i], s[4 i + 1] and s[4 i + 2], s[4 i + 3].
struct Rows {
  float largest[2];  // of the scores so far
  float sum[2];      // of this thread's exponentials
};

/// Scores to exponentials in place; returns in `rescale` what the earlier sums are worth now.
template <bool kFirst, int kCount>
__device__ inline void softmax(float (&s)[kCount], Rows& rows, float (&rescale)[2], float scale) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float even = kFirst ? s[2 * r] : fmaxf(rows.largest[r], s[2 * r]), odd = s[2 * r + 1];
#pragma unroll
    for (int i = 4; i < kCount; i += 4) {
      even = fmaxf(even, s[i + 2 * r]);
      odd = fmaxf(odd, s[i + 2 * r + 1]);
    }
    const float largest = over_quad(fmaxf(even, odd), [](float a, float b) { return fmaxf(a, b); });
    const float shift = -largest * scale;
    rescale[r] = kFirst ? 0.0F : exp2_fast(fmaf(rows.largest[r], scale, shift));
    rows.largest[r] = largest;
    float sum_even = 0, sum_odd = kFirst ? 0.0F : rows.sum[r] * rescale[r];
#pragma unroll
    for (int i = 2 * r; i < kCount; i += 4) {
      s[i] = exp2_fast(fmaf(s[i], scale, shift));
      s[i + 1] = exp2_fast(fmaf(s[i + 1], scale, shift));
      sum_even += s[i];
      sum_odd += s[i + 1];
    }
    rows.sum[r] = sum_even + sum_odd;
  }
}

/// Keys after `last[r]` (counted from the block's first, less this thread's own column offset) do not exist for row r.
template <int kCount>
__device__ inline void mask(float (&s)[kCount], const int (&last)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int column = 8 * (i / 4) + i % 2;
    if (column > last[(i / 2) % 2]) s[i] = -INFINITY;
  }
}

/// One consumer warpgroup: 64 query rows of every tile.
template <class T>
class Consumer {
 public:
  __device__ Consumer(const Task& task, std::uint32_t shared, const Barriers<T>& barriers)
      : task_(task),
        barriers_(barriers),
        shared_(shared),
        warpgroup_(__shfl_sync(~0U, static_cast<int>(threadIdx.x) / 128 - 1, 0)),  // so that it is known to be uniform
        walk_(task) {}

  __device__ void run() {
    if (warpgroup_ == T::kConsumers - 1) pass_turn();  // the first warpgroup begins
    for (; walk_.next(); ++tiles_) attend();
    if (warpgroup_ == 0) await_turn();  // no arrival is left over
  }

 private:
  using Scores = float[T::kKvTile / 2];
  using Outputs = float[T::kHeadDim / 2];
  using Weights = std::uint32_t[T::kKvTile / 4];

  static __device__ int lane() { return threadIdx.x % 32; }
  /// The first of the thread's two rows.
  __device__ int row() const { return walk_.row() + threadIdx.x / 32 * 16 - 64 + lane() / 4; }

  __device__ void await_turn() const {
    __syncwarp();  // warps arrive at it as a whole
    named_barrier(1 + warpgroup_, 256);
  }
  __device__ void pass_turn() const { named_arrive(1 + (warpgroup_ + 1) % T::kConsumers, 256); }

  // Block j of this tile in the rings of K and V, and the tile in that of Q.
  __device__ Slot<T::kStages> kv_slot(int block) const { return {blocks_ + block}; }
  __device__ Slot<T::kQStages> q_slot() const { return {tiles_}; }
  template <int kStages>
  static __device__ void await(std::uint32_t ring_full, Slot<kStages> slot) {
    barrier_wait(ring_full + 16 * slot.stage(), slot.parity());
  }
  /// This warp has read the slot.
  template <int kStages>
  static __device__ void release(std::uint32_t ring_full, Slot<kStages> slot) {
    __syncwarp();
    barrier_arrive_if(Barriers<T>::empty(ring_full + 16 * slot.stage()), lane() == 0);
  }
  __device__ void await_k(int block) const { await(barriers_.k_full(0), kv_slot(block)); }
  __device__ void await_v(int block) const { await(barriers_.v_full(0), kv_slot(block)); }
  __device__ void release_k(int block) const { release(barriers_.k_full(0), kv_slot(block)); }
  __device__ void release_v(int block) const { release(barriers_.v_full(0), kv_slot(block)); }

  /// s = Q K^T of a block: 16 columns (32 bytes) a product, 4 products a tile of 64 columns.
  __device__ void issue_scores(Scores& s, int block) const {
    constexpr int kQTile16 = T::kQTile * T::kRow / 16, kKTile16 = T::kKvTile * T::kRow / 16;
    constexpr std::uint64_t kBase = tile_descriptor_base(0, 8 * T::kRow);
    const std::uint64_t q = tile_descriptor(kBase, shared_ + q_slot().stage() * T::kQBytes + warpgroup_ * 64 * T::kRow);
    const std::uint64_t k = tile_descriptor(kBase, shared_ + T::kKAt + kv_slot(block).stage() * T::kKvBytes);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < T::kHeadDim / 16; ++i) {
      Wgmma<T::kKvTile, typename T::E>::scores(s, q + i / 4 * kQTile16 + i % 4 * 2, k + i / 4 * kKTile16 + i % 4 * 2,
                                               i > 0);
    }
    wgmma_commit();
  }

  /// o (+)= P V of a block: 16 keys a product.
  __device__ void issue_values(Outputs& o, const Weights& p, int block) const {
    constexpr std::uint64_t kBase = tile_descriptor_base(T::kKvTile * T::kRow, 8 * T::kRow);
    const std::uint64_t v = tile_descriptor(kBase, shared_ + T::kVAt + kv_slot(block).stage() * T::kKvBytes);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < T::kKvTile / 16; ++i) {
      Wgmma<T::kHeadDim, typename T::E>::values(o, p + 4 * i, v + i * (16 * T::kRow / 16), block > 0 || i > 0);
    }
    wgmma_commit();
  }

  __device__ void mask_block(Scores& s, int block) const {
    const int column = block * T::kKvTile + 2 * (lane() % 4);
    int last[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int own = task_.kv_len - task_.q_len + row() + 8 * r;
      last[r] = (T::kCausal ? min(task_.kv_len - 1, own) : task_.kv_len - 1) - column;
    }
    mask(s, last);
  }
  static __device__ void to_weights(Weights& p, const Scores& s) {
#pragma unroll
    for (int i = 0; i < T::kKvTile / 4; ++i) p[i] = device::pack_two<typename T::E>(s[2 * i], s[2 * i + 1]);
  }

  __device__ void first_step(bool masked, Rows& rows, Weights& p) const {
    Scores s;
    await_k(0);
    issue_scores(s, 0);
    wgmma_wait<0>();
    pin(s);
    release_k(0);
    if (masked) mask_block(s, 0);
    float rescale[2];
    softmax<true>(s, rows, rescale, task_.scale);  // every row sees key 0: the largest score is finite
    to_weights(p, s);
  }

  /// The scores of block j are made while the values of block j-1 are added; the exponentials of j run under the
  /// latter and under the other warpgroups' products.
  template <bool kMasked>
  __device__ void step(int block, Rows& rows, Weights& p, Outputs& o) const {
    Scores s;
    await_k(block);
    await_turn();
    issue_scores(s, block);
    await_v(block - 1);
    issue_values(o, p, block - 1);
    pass_turn();
    wgmma_wait<1>();
    pin(s);
    release_k(block);
    if (kMasked) mask_block(s, block);
    float rescale[2];
    softmax<false>(s, rows, rescale, task_.scale);
    wgmma_wait<0>();
    pin(o);
    pin(p);
    release_v(block - 1);
#pragma unroll
    for (int i = 0; i < T::kHeadDim / 2; ++i) o[i] *= rescale[(i / 2) % 2];
    to_weights(p, s);
  }

  __device__ void last_values(int block, Weights& p, Outputs& o) const {
    await_v(block);
    issue_values(o, p, block);
    wgmma_wait<0>();
    pin(o);
    release_v(block);
  }

  /// Blocks of which this warpgroup's rows see nothing.
  __device__ void sit_out(int block, int blocks) const {
    for (; block < blocks; ++block) {
      await_k(block);
      if (block > 0) {
        await_turn();
        pass_turn();
      }
      release_k(block);
      await_v(block);
      release_v(block);
    }
  }

  __device__ void attend() {
    const int first = walk_.row() + 64 * warpgroup_, blocks = walk_.blocks();
    // Blocks whose every key exists for every row of this warpgroup need no mask; those that none sees, no work.
    int full = task_.kv_len / T::kKvTile, seen = blocks;
    if (T::kCausal) {
      const int keys = task_.kv_len - task_.q_len + first;  // before the first row's own
      full = min(full, (keys + 1) / T::kKvTile);
      seen = min(seen, (keys + 64 + T::kKvTile - 1) / T::kKvTile);
    }
    if (first >= task_.q_len) seen = 0;
    await(barriers_.q_full(0), q_slot());
    if (seen > 0) {
      Rows rows;
      Outputs o;
      Weights p;
      first_step(full == 0, rows, p);
      int block = 1;
      for (; block < min(full, seen); ++block) step<false>(block, rows, p, o);
      for (; block < seen; ++block) step<true>(block, rows, p, o);
      release(barriers_.q_full(0), q_slot());
      last_values(seen - 1, p, o);
      store(rows, o);
    } else {
      release(barriers_.q_full(0), q_slot());
    }
    sit_out(seen, blocks);
    blocks_ += blocks;
  }

  /// Divides by the sums and writes rows below q_len, 64 bytes of a row a quad.
  __device__ void store(const Rows& rows, const Outputs& o) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum = over_quad(rows.sum[r], [](float a, float b) { return a + b; }), inverse = 1.0F / sum;
      const int row_i = row() + 8 * r;
      if (T::kStatistics && lane() % 4 == 0 && row_i < task_.q_len) {
        constexpr float kLn2 = 0.6931471805599453F;
        const std::int64_t head = std::int64_t{walk_.batch()} * task_.q_heads + walk_.head();
        task_.lse[head * task_.q_len + row_i] = kLn2 * (rows.largest[r] * task_.scale + log2f(sum));
      }
      const std::int64_t at = (std::int64_t{walk_.batch()} * task_.q_len + row_i) * task_.q_heads + walk_.head();
      auto* to = static_cast<typename T::E*>(task_.o) + at * T::kHeadDim + 8 * (lane() % 4);
#pragma unroll
      for (int c = 0; c < T::kHeadDim / 32; ++c) {
        std::uint32_t w[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          w[i] = device::pack_two<typename T::E>(o[16 * c + 4 * i + 2 * r] * inverse,
                                                 o[16 * c + 4 * i + 2 * r + 1] * inverse);
        }
        transpose_quad(w);
        if (row_i < task_.q_len) *reinterpret_cast<uint4*>(to + 32 * c) = make_uint4(w[0], w[1], w[2], w[3]);
      }
    }
  }

  const Task& task_;
  Barriers<T> barriers_;
  std::uint32_t shared_;
  int warpgroup_;
  Walk<T> walk_;
  unsigned tiles_ = 0, blocks_ = 0;  // before this tile
};

/// Warpgroup 0 loads (one thread of it), the others compute 64 query rows each. Items are taken in rounds of gridDim.x.
template <class T>
__global__ void __launch_bounds__(T::kThreads, 1)
    flash_prefill(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                  const __grid_constant__ CUtensorMap v, const __grid_constant__ Task task) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const std::uint32_t shared = shared_address(memory);
  const Barriers<T> barriers{shared + T::kBarriersAt};
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  if (threadIdx.x < 128) {
    registers_down<T::kProducerRegisters>();
    if (threadIdx.x == 0) {
      prefetch_map(&q);
      prefetch_map(&k);
      prefetch_map(&v);
      produce<T>(task, &q, &k, &v, shared, barriers);
    }
  } else {
    registers_up<T::kConsumerRegisters>();
    Consumer<T>(task, shared, barriers).run();
  }
}

}  // namespace plumbline::flash
