// How the kernel of attention's backward pass divides its work: tiles, the layout of shared memory, its barriers.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/attention/flash_tiles.cuh"
#include "kernels/attention/flash_wgmma.cuh"

namespace plumbline::flash {

/// The tiling of one compiled kernel: a CTA keeps 128 keys and walks over all queries that see one of them, `kQueries`
/// at a time. Two consumer warpgroups have 64 keys each.
///
/// Q has three stages: the scores of the next block are made while dK still adds the last one's. A warpgroup makes
/// 64 x 64 of dQ at a time: half the columns of a block where heads are 128 wide; where they are 64 wide (kPaired), one
/// of two blocks.
template <int kHeadDim_, bool kCausal_>
struct BackwardTiling {
  static constexpr int kHeadDim = kHeadDim_, kQueries = 64, kKeys = 128, kConsumers = 2;
  static constexpr bool kCausal = kCausal_, kPaired = kHeadDim == 64;
  static constexpr int kThreads = 128 * (kConsumers + 1);
  static constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;
  static constexpr int kQStages = 3, kDoStages = 2, kDsStages = kPaired ? 4 : 2;
  static constexpr std::uint32_t kRow = 128;  // bytes: 64 columns, the swizzle's span
  static constexpr std::uint32_t kKvBytes = kKeys * kHeadDim * 2, kQBytes = kQueries * kHeadDim * 2;
  static constexpr std::uint32_t kDsBytes = kQueries * kKeys * 2, kSumBytes = kQueries * 4;
  static constexpr std::uint32_t kVAt = kKvBytes, kQAt = kVAt + kKvBytes, kDoAt = kQAt + kQStages * kQBytes;
  static constexpr std::uint32_t kDsAt = kDoAt + kDoStages * kQBytes;
  static constexpr std::uint32_t kLseAt = kDsAt + kDsStages * kDsBytes, kDeltaAt = kLseAt + kQStages * kSumBytes;
  static constexpr std::uint32_t kBarriersAt = kDeltaAt + kDoStages * kSumBytes;
  static constexpr std::uint32_t kSharedBytes = kBarriersAt + 16 * (1 + kQStages + kDoStages);
  static_assert(kHeadDim == 64 || kHeadDim == 128);
  static_assert(kSharedBytes <= 227 * 1024);
};

/// Everything a launch knows beyond its tensors. Sums by query have rows of `padded` queries, a multiple of 128; the
/// padding has an infinite log-sum-exp, so that its weights are 0.
struct BackwardTask {
  const float* lse2;   // [B, Hq, padded]: log-sum-exp to the base of 2
  const float* delta;  // [B, Hq, padded]: sum of dO O over the row
  float* dq;           // [B, Hq, padded / kQueries] blocks in the order of the accumulators
  __nv_bfloat16 *dk, *dv;
  int q_len, kv_len, q_heads, kv_heads, group, padded;
  int key_blocks, whole_heads;
  float scale2, scale;  // log2(e) / sqrt(D), 1 / sqrt(D)
};

/// The key block of this CTA and the query blocks that it walks over: those of one query head after the other's. KV heads
/// follow each other, so that few are in L2 at a time; causal, whose first blocks are the longest, the last heads
/// (behind `whole_heads`) are done block by block, long ones first, to even out the end.
template <class T>
class BackwardWalk {
 public:
  __device__ explicit BackwardWalk(const BackwardTask& task) : task_(task) {
    const int index = blockIdx.x;
    const int rest = index - task.whole_heads * task.key_blocks, width = gridDim.x / task.key_blocks - task.whole_heads;
    const int head = rest < 0 ? index / task.key_blocks : task.whole_heads + rest % width;
    const int block = rest < 0 ? index % task.key_blocks : rest / width;
    key_ = block * T::kKeys;
    kv_head_ = head % task.kv_heads;
    batch_ = head / task.kv_heads;
    const int blocks = (task.q_len + T::kQueries - 1) / T::kQueries;
    first_ = T::kCausal ? max(0, key_ - (task.kv_len - task.q_len)) / T::kQueries : 0;
    count_ = blocks - first_;
  }
  __device__ int steps() const { return task_.group * count_; }
  __device__ int key() const { return key_; }
  __device__ int kv_head() const { return kv_head_; }
  __device__ int batch() const { return batch_; }

  // Of the current step.
  __device__ int block() const { return first_ + turn_; }
  __device__ int q_head() const { return kv_head_ * task_.group + member_; }
  __device__ void next() {
    if (++turn_ < count_) return;
    turn_ = 0;
    ++member_;
  }

 private:
  const BackwardTask& task_;
  int key_, kv_head_, batch_, first_, count_, turn_ = 0, member_ = 0;
};

/// Addresses of the barriers: K and V, then the stages of Q, then of dO: one that says full and one that says empty.
template <class T>
struct BackwardBarriers {
  std::uint32_t base;

  __device__ std::uint32_t k_full() const { return base; }
  __device__ std::uint32_t v_full() const { return base + 8; }
  __device__ std::uint32_t q_full(int s) const { return base + 16 + 16 * s; }
  __device__ std::uint32_t do_full(int s) const { return q_full(T::kQStages + s); }

  __device__ void init() const {
    barrier_init(k_full(), 1);
    barrier_init(v_full(), 1);
    for (int s = 0; s < T::kQStages + T::kDoStages; ++s) {
      barrier_init(q_full(s), 1);
      barrier_init(q_full(s) + 8, 4 * T::kConsumers);
    }
    barrier_init_fence();
  }
};

}  // namespace plumbline::flash
