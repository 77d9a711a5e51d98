// Split-KV decode attention: how the work is divided, the ring of key tiles, and the producer warp that fills it.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/attention/decode_ptx.cuh"

namespace plumbline::decode {

/// What a launch works on. A box is `box_tokens` tokens of one page (or of a contiguous cache) of one KV head.
struct Task {
  const void* q;                  ///< [B, Hq, D]
  void* o;                        ///< [B, Hq, D]; written when `splits` is 1
  float* partial_output;          ///< decode.cuh
  float* partial_log_sum;         ///< decode.cuh
  const std::int32_t* table;      ///< [B, table_width]; null: contiguous
  int table_width, page;          ///< pages a sequence; tokens a page
  int kv_heads, group;            ///< query heads a KV head
  int first_key, context;         ///< the keys seen are first_key .. context - 1
  int splits, items, box_tokens;  ///< items: B * Hkv * splits
  float scale;                    ///< log2(e) / sqrt(D)
};

/// The tile layout of a CTA of kWarps consumer warps, with 16 keys each, and one producer warp. A stage holds K and V
/// of kKeys tokens as panels of 64 columns: [keys][64] of 16 bits, rows of 128 bytes, 16-byte chunks swizzled by the copy
/// engine.
template <int kHeadDim, int kWarps, int kStages>
struct TileLayout {
  static constexpr int kKeys = 16 * kWarps;
  static constexpr int kThreads = 32 * (kWarps + 1);
  static constexpr int kPanels = kHeadDim / 64;
  static constexpr int kPanelBytes = kKeys * 128;
  static constexpr int kTileBytes = kPanels * kPanelBytes;  // of K; V the same
  static constexpr int kStageBytes = 2 * kTileBytes;
  static constexpr int kRingBytes = kStages * kStageBytes;
  static_assert(kStageBytes == kWarps * 16 * kHeadDim * 4);  // consumers merge their rows in one stage of the ring
  static constexpr int kScaleBytes = 2 * kWarps * 16 * 4;    // consumers' largest scores and sums
  static constexpr int kSharedBytes = kRingBytes + 1024 + kScaleBytes + kStages * 16;  // room to align, barriers
};

/// A work item: one split of one KV head of one sequence, as tiles of kKeys tokens.
struct Part {
  int sequence, head, split, first_tile, tiles;
};
template <int kKeys>
__device__ Part part_of(const Task& t, int item) {
  Part p;
  p.head = item % t.kv_heads;  // neighbours read neighbouring rows of the same tokens
  p.split = item / t.kv_heads % t.splits;
  p.sequence = item / t.kv_heads / t.splits;
  const int begin = t.first_key / kKeys, all = (t.context + kKeys - 1) / kKeys - begin;
  const auto cut = [&](int i) { return static_cast<int>(static_cast<long long>(all) * i / t.splits); };
  p.first_tile = begin + cut(p.split);
  p.tiles = begin + cut(p.split + 1) - p.first_tile;
  return p;
}

/// The ring: stages with a barrier each for "filled" and "free again", used in turn, n = 0, 1, ...
template <class C, int kStages>
struct Ring {
  std::uint32_t start;

  __device__ std::uint32_t stage(int n) const { return start + static_cast<unsigned>(n % kStages * C::kStageBytes); }
  __device__ std::uint32_t full(int n) const {
    return start + static_cast<unsigned>(C::kRingBytes + C::kScaleBytes + n % kStages * 16);
  }
  __device__ std::uint32_t empty(int n) const { return full(n) + 8; }
  __device__ void wait_full(int n) const { barrier_wait(full(n), static_cast<unsigned>(n / kStages) & 1); }
  __device__ void wait_empty(int n) const {
    if (n >= kStages) barrier_wait(empty(n), static_cast<unsigned>(n / kStages - 1) & 1);
  }
  __device__ void set_up(unsigned consumers) const {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(full(i), 1);
      barrier_init(empty(i), consumers);
    }
    barrier_init_fence();
  }
};

/// The producer warp on one item: lane i loads box i of a tile. Page numbers are read 32 at a time, a batch ahead of
/// use.
template <class C, int kStages>
class Producer {
 public:
  __device__ Producer(const Task& t, const Part& p, const CUtensorMap* k_map, const CUtensorMap* v_map) : t_(t), p_(p) {
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

  /// Tile i of the item into use n of the ring.
  __device__ void load_tile(const Ring<C, kStages>& ring, int i, int n) {
    const int start = (p_.first_tile + i) * C::kKeys, token = start + box_ * t_.box_tokens;
    if (start / t_.page - first_page_ >= held_from_ + 32) {  // a tile's boxes lie in one batch
      held_ = next_;
      held_from_ += 32;
      next_ = page_number(held_from_ + 32 + static_cast<int>(threadIdx.x) % 32);
    }
    const int page = __shfl_sync(~0U, held_, token / t_.page - first_page_ - held_from_);
    ring.wait_empty(n);
    if (threadIdx.x % 32 == 0) {
      const int there = min(boxes_, (t_.context - start + t_.box_tokens - 1) / t_.box_tokens);
      barrier_expect(ring.full(n), static_cast<unsigned>(there * t_.box_tokens * 128 * C::kPanels * 2));
    }
    __syncwarp();
    if (busy_ && token < t_.context) {
      load_box(ring.stage(n) + offset_, map_, ring.full(n), panel_ * 64, p_.head, token % t_.page, page, policy_);
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

  std::uint64_t policy_ = evict_first();  // each byte is read once
  const Task& t_;
  const Part& p_;
  const CUtensorMap* map_;
  std::uint32_t offset_;
  int first_page_, held_, next_, held_from_ = 0, boxes_, box_, panel_;
  bool busy_;
};

/// All items of this CTA, one after the other without a pause. Behind an item's tiles one stage is left to the
/// consumers, to merge their rows in.
template <class C, int kStages>
__device__ void produce(const Task& t, const Ring<C, kStages>& ring, const CUtensorMap* k_map,
                        const CUtensorMap* v_map) {
  int n = 0;
  for (int item = static_cast<int>(blockIdx.x); item < t.items; item += static_cast<int>(gridDim.x)) {
    const Part p = part_of<C::kKeys>(t, item);
    Producer<C, kStages> producer(t, p, k_map, v_map);
    if (n == 0) {  // behind the first request for page numbers; loads do not wait for the consumers
      if (threadIdx.x % 32 == 0) ring.set_up(C::kThreads / 32 - 1);
      __syncwarp();
      asm volatile("bar.arrive 2, %0;" ::"n"(C::kThreads) : "memory");
    }
    for (int i = 0; i < p.tiles; ++i) producer.load_tile(ring, i, n++);
    ring.wait_empty(n);
    if (threadIdx.x % 32 == 0) barrier_arrive(ring.full(n));
    ++n;
  }
}

}  // namespace plumbline::decode
