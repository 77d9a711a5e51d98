// The flash attention forward kernel; flash_prefill.cu says how it came to be, flash_prefill's comment how it works.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/flash_wgmma.cuh"

namespace plumbline::flash {

/// How one compiled kernel cuts its work. Query tile: 64 rows a consumer warpgroup.
template <int kHeadDim_, int kConsumers_, int kKvTile_, bool kCausal_, bool kTurns_ = true>
struct Tiling {
  static constexpr int kHeadDim = kHeadDim_, kConsumers = kConsumers_, kKvTile = kKvTile_;
  static constexpr bool kCausal = kCausal_;
  static constexpr bool kTurns = kTurns_;  ///< warpgroups take turns at issuing matrix products
  static constexpr int kQTile = 64 * kConsumers;
  static constexpr int kThreads = 128 * (kConsumers + 1);
  static constexpr int kProducerRegisters = kConsumers == 2 ? 24 : 32;
  static constexpr int kConsumerRegisters = kConsumers == 2 ? 240 : 160;
  static constexpr int kStages = 2;
  static constexpr std::uint32_t kRow = 128;  // bytes: 64 columns, the swizzle's span
  static constexpr std::uint32_t kQBytes = kQTile * kHeadDim * 2;
  static constexpr std::uint32_t kKvBytes = kKvTile * kHeadDim * 2;  // one stage of K or of V
  static constexpr std::uint32_t kKAt = kQBytes, kVAt = kKAt + kStages * kKvBytes;
  static constexpr std::uint32_t kBarriersAt = kVAt + kStages * kKvBytes;
  static constexpr std::uint32_t kSharedBytes = kBarriersAt + 8 * (2 + 4 * kStages);
};

/// Everything a launch knows beyond its tensors.
struct Task {
  __nv_bfloat16* o;
  int q_len, kv_len, q_heads, group;  // group: query heads a KV head
  int heads, section;                 // B x Hq; heads whose K and V fit L2 together
  int tiles, items;                   // query tiles a head; tiles x heads
  float scale;                        // log2(e) / sqrt(D): exponents are of 2
};

/// One query tile of one head.
struct Item {
  int tile, head, batch, blocks;

  /// Causal: the longest tiles of a section of heads come first, so that the short ones fill the end. Otherwise the
  /// tiles of a head follow each other and share its K and V in L2.
  template <class T>
  static __device__ inline Item at(const Task& task, int index) {
    int tile, head;
    if constexpr (T::kCausal) {
      const int section = index / (task.section * task.tiles), first = section * task.section;
      const int within = index - first * task.tiles, width = min(task.section, task.heads - first);
      tile = task.tiles - 1 - within / width;
      head = first + within % width;
    } else {
      head = index / task.tiles;
      tile = index % task.tiles;
    }
    const int seen = T::kCausal ? min(task.kv_len, task.kv_len - task.q_len + (tile + 1) * T::kQTile) : task.kv_len;
    return {tile, head % task.q_heads, head / task.q_heads, (seen + T::kKvTile - 1) / T::kKvTile};
  }
};

/// Which item a CTA does in its n-th turn: every other round backwards, so that who got the longest gets the shortest.
__device__ inline int item_of_turn(int turn) {
  const int place = (turn & 1) ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  return turn * gridDim.x + place;
}

/// Addresses of the barriers: Q full and empty, then for each stage of K and V the same.
template <class T>
struct Barriers {
  std::uint32_t base;
  __device__ std::uint32_t q_full() const { return base; }
  __device__ std::uint32_t q_empty() const { return base + 8; }
  __device__ std::uint32_t k_full(int s) const { return base + 16 + 8 * s; }
  __device__ std::uint32_t k_empty(int s) const { return base + 16 + 8 * (T::kStages + s); }
  __device__ std::uint32_t v_full(int s) const { return base + 16 + 8 * (2 * T::kStages + s); }
  __device__ std::uint32_t v_empty(int s) const { return base + 16 + 8 * (3 * T::kStages + s); }

  __device__ void init() const {
    constexpr int kWarps = 4 * T::kConsumers;
    barrier_init(q_full(), 1);
    barrier_init(q_empty(), kWarps);
    for (int s = 0; s < T::kStages; ++s) {
      barrier_init(k_full(s), 1);
      barrier_init(v_full(s), 1);
      barrier_init(k_empty(s), kWarps);
      barrier_init(v_empty(s), kWarps);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
};

/// Place in a ring: the stage, and the parity of the phase it is in.
template <int kStages>
struct Ring {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ void next() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// --- producer -------------------------------------------------------------------------------------------------------

/// `rows` rows of one head from `row` on, as D / 64 tiles of 64 columns each.
template <class T>
__device__ inline void load_rows(std::uint32_t to, const CUtensorMap* map, std::uint32_t full, int rows, int head,
                                 int row, int batch) {
  barrier_expect(full, rows * T::kHeadDim * 2);
#pragma unroll
  for (int c = 0; c < T::kHeadDim / 64; ++c) load_box(to + c * rows * T::kRow, map, full, 64 * c, head, row, batch);
}

/// One thread fills the rings: Q, K0, then K(j) ahead of V(j-1), as they will be asked for.
template <class T>
__device__ inline void produce(const Task& task, const CUtensorMap* q, const CUtensorMap* k, const CUtensorMap* v,
                               std::uint32_t shared, const Barriers<T>& barriers) {
  Ring<T::kStages> k_ring, v_ring;
  std::uint32_t q_parity = 0;
  for (int turn = 0; turn * gridDim.x < task.items; ++turn) {
    const int index = item_of_turn(turn);
    if (index >= task.items) continue;
    const Item item = Item::at<T>(task, index);
    const int kv_head = item.head / task.group;
    barrier_wait(barriers.q_empty(), q_parity ^ 1);
    load_rows<T>(shared, q, barriers.q_full(), T::kQTile, item.head, item.tile * T::kQTile, item.batch);
    q_parity ^= 1;
    for (int j = 0; j <= item.blocks; ++j) {
      if (j < item.blocks) {
        barrier_wait(barriers.k_empty(k_ring.stage), k_ring.parity ^ 1);
        load_rows<T>(shared + T::kKAt + k_ring.stage * T::kKvBytes, k, barriers.k_full(k_ring.stage), T::kKvTile,
                     kv_head, j * T::kKvTile, item.batch);
        k_ring.next();
      }
      if (j > 0) {
        barrier_wait(barriers.v_empty(v_ring.stage), v_ring.parity ^ 1);
        load_rows<T>(shared + T::kVAt + v_ring.stage * T::kKvBytes, v, barriers.v_full(v_ring.stage), T::kKvTile,
                     kv_head, (j - 1) * T::kKvTile, item.batch);
        v_ring.next();
      }
    }
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
template <class F>
__device__ inline float over_quad(float x, F combine) {
  x = combine(x, __shfl_xor_sync(~0U, x, 1));
  return combine(x, __shfl_xor_sync(~0U, x, 2));
}

/// What a thread keeps of its two rows (r and r + 8 of its warp's 16): it holds columns 8 i + 2 (lane % 4) + {0, 1} of
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

/// One consumer warpgroup: 64 query rows of an item.
template <class T>
class Consumer {
 public:
  __device__ Consumer(const Task& task, std::uint32_t shared, const Barriers<T>& barriers)
      : task_(task), barriers_(barriers) {
    warpgroup_ = threadIdx.x / 128 - 1;
    lane_ = threadIdx.x % 32;
    row_ = 64 * warpgroup_ + threadIdx.x % 128 / 32 * 16 + lane_ / 4;
    q_ = tile_descriptor(tile_descriptor_base(0, 8 * T::kRow), shared + warpgroup_ * 64 * T::kRow);
    k_ = tile_descriptor(tile_descriptor_base(0, 8 * T::kRow), shared + T::kKAt);
    v_ = tile_descriptor(tile_descriptor_base(T::kKvTile * T::kRow, 8 * T::kRow), shared + T::kVAt);
  }

  __device__ void run() {
    if (T::kTurns && warpgroup_ == T::kConsumers - 1) pass_turn();  // the first warpgroup begins
    for (int turn = 0; turn * gridDim.x < task_.items; ++turn) {
      const int index = item_of_turn(turn);
      if (index < task_.items) attend(Item::at<T>(task_, index));
    }
    if (T::kTurns && warpgroup_ == 0) await_turn();  // no arrival is left over
  }

 private:
  using Scores = float[T::kKvTile / 2];
  using Outputs = float[T::kHeadDim / 2];
  using Weights = std::uint32_t[T::kKvTile / 4];

  __device__ void await_turn() const { named_wait(1 + warpgroup_, 256); }
  __device__ void pass_turn() const { named_arrive(1 + (warpgroup_ + 1) % T::kConsumers, 256); }

  /// s = Q K^T of the block in the K ring's stage; 16 columns (32 bytes) a product, 4 products a tile of 64 columns.
  __device__ void issue_scores(Scores& s) const {
    constexpr int kTile16 = T::kQTile * T::kRow / 16, kKTile16 = T::kKvTile * T::kRow / 16;
    const std::uint64_t k = k_ + k_ring_.stage * (T::kKvBytes / 16);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < T::kHeadDim / 16; ++i) {
      Wgmma<T::kKvTile>::scores(s, q_ + i / 4 * kTile16 + i % 4 * 2, k + i / 4 * kKTile16 + i % 4 * 2, i > 0);
    }
    wgmma_commit();
  }

  /// o (+)= P V of the block in the V ring's stage; 16 keys a product.
  __device__ void issue_values(Outputs& o, const Weights& p, bool add) const {
    const std::uint64_t v = v_ + v_ring_.stage * (T::kKvBytes / 16);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < T::kKvTile / 16; ++i) {
      Wgmma<T::kHeadDim>::values(o, p + 4 * i, v + i * (16 * T::kRow / 16), add || i > 0);
    }
    wgmma_commit();
  }

  __device__ void release(std::uint32_t barrier) const {
    if (lane_ == 0) barrier_arrive(barrier);
  }
  __device__ void scores_done(Scores& s) {
    pin(s);
    release(barriers_.k_empty(k_ring_.stage));
    k_ring_.next();
  }
  __device__ void values_done(Outputs& o, Weights& p) {
    pin(o);
    pin(p);
    release(barriers_.v_empty(v_ring_.stage));
    v_ring_.next();
  }

  __device__ void mask_block(Scores& s, const Item& item, int block) const {
    const int column = block * T::kKvTile + 2 * (lane_ % 4);
    int last[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = item.tile * T::kQTile + row_ + 8 * r;
      last[r] = (T::kCausal ? min(task_.kv_len - 1, task_.kv_len - task_.q_len + row) : task_.kv_len - 1) - column;
    }
    mask(s, last);
  }
  static __device__ void to_weights(Weights& p, const Scores& s) {
#pragma unroll
    for (int i = 0; i < T::kKvTile / 4; ++i) p[i] = pack_bf16(s[2 * i], s[2 * i + 1]);
  }

  /// The scores of block j are made while the values of block j-1 are added; the exponentials of j run under the
  /// latter and, with turns, under the other warpgroups' products.
  template <bool kMasked>
  __device__ void step(const Item& item, int block, Rows& rows, Weights& p, Outputs& o) {
    Scores s;
    barrier_wait(barriers_.k_full(k_ring_.stage), k_ring_.parity);
    if (T::kTurns) await_turn();
    issue_scores(s);
    barrier_wait(barriers_.v_full(v_ring_.stage), v_ring_.parity);
    issue_values(o, p, block > 1);
    if (T::kTurns) pass_turn();
    wgmma_wait<1>();
    scores_done(s);
    if (kMasked) mask_block(s, item, block);
    float rescale[2];
    softmax<false>(s, rows, rescale, task_.scale);
    wgmma_wait<0>();
    values_done(o, p);
#pragma unroll
    for (int i = 0; i < T::kHeadDim / 2; ++i) o[i] *= rescale[(i / 2) % 2];
    to_weights(p, s);
  }

  __device__ void attend(const Item& item) {
    // Blocks whose every key exists for every row of this warpgroup need no mask.
    int full = task_.kv_len / T::kKvTile;
    if (T::kCausal) {
      const int first_row = item.tile * T::kQTile + 64 * warpgroup_;
      full = min(full, (task_.kv_len - task_.q_len + first_row + 1) / T::kKvTile);
    }
    Rows rows;
    Outputs o;
    Weights p;
    barrier_wait(barriers_.q_full(), q_parity_);
    q_parity_ ^= 1;
    {
      Scores s;
      barrier_wait(barriers_.k_full(k_ring_.stage), k_ring_.parity);
      issue_scores(s);
      wgmma_wait<0>();
      scores_done(s);
      if (full == 0) mask_block(s, item, 0);
      float rescale[2];
      softmax<true>(s, rows, rescale, task_.scale);  // every row sees key 0: the largest score is finite
      to_weights(p, s);
    }
    int block = 1;
    for (; block < min(full, item.blocks); ++block) step<false>(item, block, rows, p, o);
    for (; block < item.blocks; ++block) step<true>(item, block, rows, p, o);
    release(barriers_.q_empty());
    barrier_wait(barriers_.v_full(v_ring_.stage), v_ring_.parity);
    issue_values(o, p, item.blocks > 1);
    wgmma_wait<0>();
    values_done(o, p);
    store(item, rows, o);
  }

  /// Words w[i] of the four threads of a quad, transposed: afterwards thread t has word t of each.
  __device__ void transpose_quad(std::uint32_t (&w)[4]) const {
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2) {
      const bool upper = lane_ & bit;
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

  /// Divides by the sums and writes rows below q_len, 64 bytes of a row a quad.
  __device__ void store(const Item& item, const Rows& rows, const Outputs& o) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float inverse = 1.0F / over_quad(rows.sum[r], [](float a, float b) { return a + b; });
      const int row = item.tile * T::kQTile + row_ + 8 * r;
      const std::int64_t at = (std::int64_t{item.batch} * task_.q_len + row) * task_.q_heads + item.head;
      __nv_bfloat16* to = task_.o + at * T::kHeadDim + 8 * (lane_ % 4);
#pragma unroll
      for (int c = 0; c < T::kHeadDim / 32; ++c) {
        std::uint32_t w[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          w[i] = pack_bf16(o[16 * c + 4 * i + 2 * r] * inverse, o[16 * c + 4 * i + 2 * r + 1] * inverse);
        }
        transpose_quad(w);
        if (row < task_.q_len) *reinterpret_cast<uint4*>(to + 32 * c) = make_uint4(w[0], w[1], w[2], w[3]);
      }
    }
  }

  const Task& task_;
  Barriers<T> barriers_;
  std::uint64_t q_, k_, v_;
  int warpgroup_, lane_, row_;  // row_: the first of the thread's two, within the tile
  Ring<T::kStages> k_ring_, v_ring_;
  std::uint32_t q_parity_ = 0;
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
    registers_give<T::kProducerRegisters>();
    if (threadIdx.x == 0) {
      prefetch_map(&q);
      prefetch_map(&k);
      prefetch_map(&v);
      produce<T>(task, &q, &k, &v, shared, barriers);
    }
  } else {
    registers_take<T::kConsumerRegisters>();
    Consumer<T>(task, shared, barriers).run();
  }
}

}  // namespace plumbline::flash
