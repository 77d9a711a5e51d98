// How the flash attention forward kernel divides its work: the tiles, which CTA does which, and the layout of shared
// memory.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/attention/flash_wgmma.cuh"
#include "kernels/common/tensor_map.cuh"

namespace plumbline::flash {

/// The tiling of one compiled kernel. A query tile has 64 rows for each consumer warpgroup.
/// With kStatistics each row's log-sum-exp is written too, which a backward pass needs.
template <int kHeadDim_, int kConsumers_, int kKvTile_, bool kCausal_, bool kStatistics_ = false,
          class E_ = __nv_bfloat16>
struct Tiling {
  using E = E_;
  static constexpr int kHeadDim = kHeadDim_, kConsumers = kConsumers_, kKvTile = kKvTile_;
  static constexpr bool kCausal = kCausal_, kStatistics = kStatistics_;
  static constexpr int kQTile = 64 * kConsumers;
  static constexpr int kThreads = 128 * (kConsumers + 1);
  // A CTA starts with 64 K registers (in multiples of 8 a thread); the producer gives up what the consumers need.
  static_assert(kConsumers == 2 || kConsumers == 3);
  static constexpr int kProducerRegisters = kConsumers == 2 ? 40 : 32;
  static constexpr int kConsumerRegisters = kConsumers == 2 ? 232 : 160;
  static constexpr int kStages = 2;                         // of K and of V
  static constexpr int kQStages = kHeadDim == 256 ? 1 : 2;  // the next tile's Q, where there is room
  static constexpr std::uint32_t kRow = 128;                // bytes: 64 columns, the swizzle's span
  static constexpr std::uint32_t kQBytes = kQTile * kHeadDim * 2;
  static constexpr std::uint32_t kKvBytes = kKvTile * kHeadDim * 2;  // one stage of K or of V
  static constexpr std::uint32_t kKAt = kQStages * kQBytes, kVAt = kKAt + kStages * kKvBytes;
  static constexpr std::uint32_t kBarriersAt = kVAt + kStages * kKvBytes;
  static constexpr std::uint32_t kSharedBytes = kBarriersAt + 16 * (kQStages + 2 * kStages);
};

/// Everything a launch knows beyond its tensors.
struct Task {
  void* o;
  int q_len, kv_len, q_heads, group;  // group: query heads a KV head
  int heads, tiles;                   // B x Hq; query tiles a head
  int pairs, paired_heads;            // causal: pairs of tiles a head, and the heads that are done in pairs
  int items;
  float scale;  // log2(e) / sqrt(D): exponents are of 2
  float* lse;   // [B, Hq, Sq]: natural logarithm of the row's sum of exponentials
};

/// The tiles of this CTA, one after the other. Every other round of items goes backwards over the CTAs.
///
/// Not causal: an item is a tile; those of a head follow each other and share its K and V in L2. Causal: an item is a
/// long tile with the short one that complements it, so that items are alike and few heads are in L2 at a time; the
/// last heads are done tile by tile, long ones first, to even out the end.
template <class T>
class Walk {
 public:
  __device__ explicit Walk(const Task& task) : task_(task) {}

  /// Moves on to the next tile, if there is one.
  __device__ bool next() {
    tile_ = second_;
    second_ = -1;
    if (tile_ >= 0) return true;
    const int place = (turn_ & 1) ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    const int index = turn_++ * static_cast<int>(gridDim.x) + place;
    if (index >= task_.items) return false;
    tile_ = start(index);
    return true;
  }

  __device__ int row() const { return tile_ * T::kQTile; }
  __device__ int head() const { return head_ % task_.q_heads; }
  __device__ int batch() const { return head_ / task_.q_heads; }
  /// Blocks of keys that the tile's last row sees.
  __device__ int blocks() const {
    const int seen = T::kCausal ? min(task_.kv_len, task_.kv_len - task_.q_len + row() + T::kQTile) : task_.kv_len;
    return (seen + T::kKvTile - 1) / T::kKvTile;
  }

 private:
  __device__ int start(int index) {
    if constexpr (!T::kCausal) {
      head_ = index / task_.tiles;
      return index % task_.tiles;
    }
    const int singles = index - task_.paired_heads * task_.pairs;
    if (singles < 0) {
      head_ = index / task_.pairs;
      const int tile = task_.tiles - 1 - index % task_.pairs, other = index % task_.pairs;
      if (tile != other) second_ = other;
      return tile;
    }
    const int width = task_.heads - task_.paired_heads;
    head_ = task_.paired_heads + singles % width;
    return task_.tiles - 1 - singles / width;
  }

  const Task& task_;
  int turn_ = 0, head_ = 0, tile_ = 0, second_ = -1;
};

/// x[B, S, H, D] in boxes of `rows` x 64 columns of one head, swizzled over 128 bytes.
inline CUtensorMap head_map(const void* x, std::int64_t batch, std::int64_t length, std::int64_t heads,
                            std::int64_t dim, int rows) {
  const auto extent = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t sizes[4] = {extent(dim), extent(heads), extent(length), extent(batch)};
  const cuuint64_t strides[3] = {extent(dim * 2), extent(heads * dim * 2), extent(length * heads * dim * 2)};
  const cuuint32_t box[4] = {64, 1, static_cast<cuuint32_t>(rows), 1};
  return encode_tensor_map({CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, x, sizes, strides, box, CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B});
}

/// Addresses of the barriers: of each stage of Q, then of K, then of V, one that says it is full and one that says it
/// is empty.
template <class T>
struct Barriers {
  static constexpr int kWarps = 4 * T::kConsumers, kStages = T::kQStages + 2 * T::kStages;
  std::uint32_t base;

  __device__ std::uint32_t q_full(int s) const { return base + 16 * s; }
  __device__ std::uint32_t k_full(int s) const { return q_full(T::kQStages + s); }
  __device__ std::uint32_t v_full(int s) const { return k_full(T::kStages + s); }
  static __device__ std::uint32_t empty(std::uint32_t full) { return full + 8; }

  __device__ void init() const {
    for (int s = 0; s < kStages; ++s) {
      barrier_init(q_full(s), 1);
      barrier_init(empty(q_full(s)), kWarps);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
};

/// The stage of the n-th tile that passes through a ring, and the parity of its barriers' phase at that time.
template <int kStages>
struct Slot {
  unsigned number;
  __device__ unsigned stage() const { return number % kStages; }
  __device__ unsigned parity() const { return number / kStages % 2; }
};

}  // namespace plumbline::flash
