// The kernel of attention's backward pass: its producer and its consumers. flash_backward_tiles.cuh says how the work
// is divided. Per block of queries, with P = exp(S / sqrt(D) - lse) and dS = P (dP - delta):
//   S^T = K Q^T, dP^T = V dO^T, dV += P^T dO, dK += dS^T Q, dQ += dS K.
// P^T and dS^T stay in registers as the left operands of dV and dK; dS goes through shared memory for dQ, whose sum
// runs over the keys of both warpgroups.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/attention/flash_backward_tiles.cuh"
#include "kernels/attention/flash_prefill.cuh"

namespace plumbline::flash {

// --- producer -------------------------------------------------------------------------------------------------------

/// A row of fp32 sums.
__device__ inline void load_sums(std::uint32_t to, const float* from, std::uint32_t bytes, std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

template <class T>
__device__ inline void load_tile(std::uint32_t to, const CUtensorMap* map, std::uint32_t full, int rows, int head,
                                 int row, int batch) {
#pragma unroll
  for (int c = 0; c < T::kHeadDim / 64; ++c) load_box(to + c * rows * T::kRow, map, full, 64 * c, head, row, batch);
}

/// One thread fills the rings.
template <class T>
__device__ inline void produce_backward(const BackwardTask& task, const CUtensorMap* q, const CUtensorMap* k,
                                        const CUtensorMap* v, const CUtensorMap* d_o, std::uint32_t shared,
                                        const BackwardBarriers<T>& barriers) {
  BackwardWalk<T> walk(task);
  barrier_expect(barriers.k_full(), T::kKvBytes);
  load_tile<T>(shared, k, barriers.k_full(), T::kKeys, walk.kv_head(), walk.key(), walk.batch());
#pragma unroll 1
  for (unsigned step = 0, steps = walk.steps(); step < steps; ++step, walk.next()) {
    const Slot<T::kQStages> q_slot{step};
    const Slot<T::kDoStages> do_slot{step};
    const int row = walk.block() * T::kQueries;
    const std::int64_t sums = (std::int64_t{walk.batch()} * task.q_heads + walk.q_head()) * task.padded + row;
    const std::uint32_t q_full = barriers.q_full(q_slot.stage()), do_full = barriers.do_full(do_slot.stage());
    barrier_wait(q_full + 8, q_slot.parity() ^ 1);
    barrier_expect(q_full, T::kQBytes + T::kSumBytes);
    load_tile<T>(shared + T::kQAt + q_slot.stage() * T::kQBytes, q, q_full, T::kQueries, walk.q_head(), row,
                 walk.batch());
    load_sums(shared + T::kLseAt + q_slot.stage() * T::kSumBytes, task.lse2 + sums, T::kSumBytes, q_full);
    if (step == 0) {
      barrier_expect(barriers.v_full(), T::kKvBytes);
      load_tile<T>(shared + T::kVAt, v, barriers.v_full(), T::kKeys, walk.kv_head(), walk.key(), walk.batch());
    }
    barrier_wait(do_full + 8, do_slot.parity() ^ 1);
    barrier_expect(do_full, T::kQBytes + T::kSumBytes);
    load_tile<T>(shared + T::kDoAt + do_slot.stage() * T::kQBytes, d_o, do_full, T::kQueries, walk.q_head(), row,
                 walk.batch());
    load_sums(shared + T::kDeltaAt + do_slot.stage() * T::kSumBytes, task.delta + sums, T::kSumBytes, do_full);
  }
}

// --- consumers ------------------------------------------------------------------------------------------------------

__device__ inline float2 load_pair(std::uint32_t from) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(from));
  return v;
}
/// Four 8 x 8 matrices of the accumulators' layout, each transposed.
__device__ inline void store_transposed(std::uint32_t to, const std::uint32_t* v) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v[0]), "r"(v[1]),
               "r"(v[2]), "r"(v[3])
               : "memory");
}
/// Additions in L2. Their rate there limits the kernel: without them it is a quarter shorter (H200). The copy engine's,
/// from shared memory, take as long.
__device__ inline void add_to_memory(float* to, const float* v) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v[0]), "f"(v[1]), "f"(v[2]),
               "f"(v[3])
               : "memory");
}
__device__ inline void async_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// One consumer warpgroup: 64 keys of the CTA's block. A thread holds keys r and r + 8 of its warp's 16, as columns of
/// S^T: queries 8 i + 2 (lane % 4) + {0, 1} as s[4 i], s[4 i + 1] and s[4 i + 2], s[4 i + 3].
template <class T>
class BackwardConsumer {
 public:
  __device__ BackwardConsumer(const BackwardTask& task, std::uint32_t shared, const BackwardBarriers<T>& barriers)
      : task_(task),
        barriers_(barriers),
        shared_(shared),
        warpgroup_(__shfl_sync(~0U, static_cast<int>(threadIdx.x) / 128 - 1, 0)),
        walk_(task) {}

  __device__ void run() {
    Gradient dk, dv;
    Scores s;
    const int steps = walk_.steps();
    barrier_wait(barriers_.k_full(), 0);
    await_q(0);
    issue_scores(s, 0);
    wgmma_commit();
    wgmma_wait<0>();
    pin(s);
    barrier_wait(barriers_.v_full(), 0);
    if constexpr (T::kPaired) {
      int step = 0;
      for (; step + 1 < steps; step += 2) {
        add_block<0>(step, true, s, dk, dv);
        add_block<1>(step + 1, step + 2 < steps, s, dk, dv);
      }
      if (step < steps) {
        add_block<0>(step, false, s, dk, dv);
        finish_odd(step);
      }
    } else {
      for (int step = 0; step < steps; ++step) add_block<1>(step, step + 1 < steps, s, dk, dv);
    }
    wgmma_wait<0>();
    pin(dk);
    pin(dv);
    store(task_.dv, dv, 1.0F);
    store(task_.dk, dk, task_.scale);
  }

 private:
  using Scores = float[T::kQueries / 2];
  using Gradient = float[T::kHeadDim / 2];
  using Packed = std::uint32_t[T::kQueries / 4];
  static constexpr std::uint64_t kPlain = tile_descriptor_base(0, 8 * T::kRow);

  static __device__ int lane() { return threadIdx.x % 32; }
  __device__ int warp() const { return threadIdx.x / 32 % 4; }
  /// The first of the thread's two keys.
  __device__ int key() const { return walk_.key() + 64 * warpgroup_ + 16 * warp() + lane() / 4; }

  static __device__ Slot<T::kQStages> q_slot(int step) { return {static_cast<unsigned>(step)}; }
  static __device__ Slot<T::kDoStages> do_slot(int step) { return {static_cast<unsigned>(step)}; }
  __device__ void await_q(int step) const {
    barrier_wait(barriers_.q_full(q_slot(step).stage()), q_slot(step).parity());
  }
  __device__ void await_do(int step) const {
    barrier_wait(barriers_.do_full(do_slot(step).stage()), do_slot(step).parity());
  }
  static __device__ void release(std::uint32_t full) {
    __syncwarp();
    barrier_arrive_if(full + 8, lane() == 0);
  }
  __device__ std::uint32_t q_at(int step) const { return shared_ + T::kQAt + q_slot(step).stage() * T::kQBytes; }
  __device__ std::uint32_t do_at(int step) const { return shared_ + T::kDoAt + do_slot(step).stage() * T::kQBytes; }
  __device__ std::uint32_t ds_at(int step) const { return shared_ + T::kDsAt + step % T::kDsStages * T::kDsBytes; }

  /// s = A B^T over the head's width: A this warpgroup's 64 of the keys, B a block of queries.
  __device__ void issue_transposed(Scores& s, std::uint32_t keys, std::uint32_t queries) const {
    constexpr int kKeyTile = T::kKeys * T::kRow / 16, kQueryTile = T::kQueries * T::kRow / 16;
    const std::uint64_t a = tile_descriptor(kPlain, keys + warpgroup_ * 64 * T::kRow);
    const std::uint64_t b = tile_descriptor(kPlain, queries);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < T::kHeadDim / 16; ++i) {
      Wgmma<T::kQueries>::scores(s, a + i / 4 * kKeyTile + i % 4 * 2, b + i / 4 * kQueryTile + i % 4 * 2, i > 0);
    }
  }
  __device__ void issue_scores(Scores& s, int step) const { issue_transposed(s, shared_, q_at(step)); }

  /// d (+)= A B over the block's queries, A [64 keys, queries] from registers.
  __device__ void issue_gradient(Gradient& d, const Packed& a, std::uint32_t queries, bool add) const {
    constexpr std::uint64_t kBase = tile_descriptor_base(T::kQueries * T::kRow, 8 * T::kRow);
    const std::uint64_t b = tile_descriptor(kBase, queries);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < T::kQueries / 16; ++i) {
      Wgmma<T::kHeadDim>::values(d, a + 4 * i, b + i * (16 * T::kRow / 16), add || i > 0);
    }
  }

  /// This warpgroup's 64 x 64 of dQ, from the dS of `step` and K.
  __device__ void issue_dq(float (&dq)[32], int step) const {
    constexpr int kDsTile = T::kQueries * T::kRow / 16;
    const std::uint32_t columns = T::kPaired ? 0 : warpgroup_ * T::kKeys * T::kRow;
    const std::uint64_t a = tile_descriptor(kPlain, ds_at(step)), b = tile_descriptor(kPlain, shared_ + columns);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < T::kKeys / 16; ++i) {
      Wgmma<64>::across(dq, a + i / 4 * kDsTile + i % 4 * 2, b + i * (16 * T::kRow / 16), i > 0);
    }
  }

  /// Pairs that don't exist.
  __device__ void mask(Scores& s) const {
    const int query = walk_.block() * T::kQueries, before = task_.kv_len - task_.q_len;
    const bool ragged = walk_.key() + T::kKeys > task_.kv_len;
    const bool diagonal = T::kCausal && query + before < walk_.key() + 64 * warpgroup_ + 63;
    if (!ragged && !diagonal) return;
    int from[2];  // the first query that sees the key
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      from[r] = T::kCausal ? key() + 8 * r - before - query - 2 * (lane() % 4) : 0;
      if (key() + 8 * r >= task_.kv_len) from[r] = T::kQueries;
    }
#pragma unroll
    for (int i = 0; i < T::kQueries / 2; ++i) {
      if (8 * (i / 4) + i % 2 < from[(i / 2) % 2]) s[i] = -INFINITY;
    }
  }

  /// Scores to weights.
  __device__ void weigh(Scores& s, int step) const {
    const std::uint32_t lse = shared_ + T::kLseAt + q_slot(step).stage() * T::kSumBytes + 8 * (lane() % 4);
#pragma unroll
    for (int i = 0; i < T::kQueries / 8; ++i) {
      const float2 l = load_pair(lse + 32 * i);
      s[4 * i] = exp2_fast(fmaf(s[4 * i], task_.scale2, -l.x));
      s[4 * i + 1] = exp2_fast(fmaf(s[4 * i + 1], task_.scale2, -l.y));
      s[4 * i + 2] = exp2_fast(fmaf(s[4 * i + 2], task_.scale2, -l.x));
      s[4 * i + 3] = exp2_fast(fmaf(s[4 * i + 3], task_.scale2, -l.y));
    }
  }
  static __device__ void pack(Packed& p, const Scores& s) {
#pragma unroll
    for (int i = 0; i < T::kQueries / 4; ++i) p[i] = pack_bf16(s[2 * i], s[2 * i + 1]);
  }
  /// dS = P (dP - delta).
  __device__ void differentiate(Packed& ds, const Scores& p, const Scores& dp, int step) const {
    const std::uint32_t delta = shared_ + T::kDeltaAt + do_slot(step).stage() * T::kSumBytes + 8 * (lane() % 4);
#pragma unroll
    for (int i = 0; i < T::kQueries / 8; ++i) {
      const float2 d = load_pair(delta + 32 * i);
      ds[2 * i] = pack_bf16(p[4 * i] * (dp[4 * i] - d.x), p[4 * i + 1] * (dp[4 * i + 1] - d.y));
      ds[2 * i + 1] = pack_bf16(p[4 * i + 2] * (dp[4 * i + 2] - d.x), p[4 * i + 3] * (dp[4 * i + 3] - d.y));
    }
  }
  /// dS^T to dS[queries, 64 keys] of this warpgroup.
  __device__ void share(const Packed& ds, int step) const {
    const int matrix = lane() / 8, row = lane() % 8, chunk = 2 * warp() + matrix % 2;
    const std::uint32_t to =
        ds_at(step) + warpgroup_ * T::kQueries * T::kRow + (8 * (matrix / 2) + row) * T::kRow + ((chunk ^ row) << 4);
#pragma unroll
    for (int j = 0; j < T::kQueries / 16; ++j) store_transposed(to + 16 * j * T::kRow, ds + 4 * j);
  }

  /// Where this warp's 16 x 64 of the current block's dQ are summed up.
  __device__ float* dq_place() const {
    const int part = T::kPaired ? warp() : 4 * warpgroup_ + warp();
    const std::int64_t head = std::int64_t{walk_.batch()} * task_.q_heads + walk_.q_head();
    return task_.dq + (head * task_.padded + walk_.block() * T::kQueries) * T::kHeadDim + part * 1024 + 4 * lane();
  }
  __device__ void add_dq(const float (&dq)[32]) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) add_to_memory(dq_to_ + 128 * i, dq + 4 * i);
  }

  /// One block of queries, whose scores are there or on their way; the next one's follow while this one's are in use.
  /// kPlace: of two blocks whose dQ is made together, at the second; 1 if each block's is.
  template <int kPlace>
  __device__ __forceinline__ void add_block(int step, bool more, Scores& s, Gradient& dk, Gradient& dv) {
    Scores dp;
    Packed p, ds;
    await_do(step);
    issue_transposed(dp, shared_ + T::kVAt, do_at(step));
    wgmma_commit();
    if (T::kPaired && kPlace == 1) {
      wgmma_wait<2>();  // the scores, under dK of the last block and dP
      pin(s);
    }
    mask(s);
    weigh(s, step);
    pin(s);
    wgmma_wait<1>();  // dK of the last block
    if (step > 0) release(barriers_.q_full(q_slot(step - 1).stage()));
    wgmma_wait<0>();  // dP
    pin(dp);
    pack(p, s);
    differentiate(ds, s, dp, step);
    pin(p);
    pin(ds);
    if (!T::kPaired || warpgroup_ == kPlace) dq_to_ = dq_place();
    walk_.next();
    if (more) await_q(step + 1);
    issue_gradient(dv, p, do_at(step), step > 0);
    wgmma_commit();
    issue_scores(s, step + 1);  // without a next block they are of an old one and nobody's
    wgmma_commit();
    share(ds, step);
    async_proxy_fence();
    if (kPlace == 1) named_barrier(1, 128 * T::kConsumers);
    wgmma_wait<1>();  // dV
    release(barriers_.do_full(do_slot(step).stage()));
    float dq[32];
    if (kPlace == 1) {
      issue_dq(dq, T::kPaired ? step - 1 + warpgroup_ : step);
      wgmma_commit();
    }
    issue_gradient(dk, ds, q_at(step), step > 0);
    wgmma_commit();
    if (kPlace == 1) {
      wgmma_wait<1>();  // all but dK
      pin(dq);
      pin(s);
      add_dq(dq);
    }
  }

  /// dQ of a last block that has no second one.
  __device__ void finish_odd(int step) const {
    named_barrier(1, 128 * T::kConsumers);
    wgmma_wait<0>();
    if (warpgroup_ != 0) return;
    float dq[32];
    issue_dq(dq, step);
    wgmma_commit();
    wgmma_wait<0>();
    pin(dq);
    add_dq(dq);
  }

  /// bf16 rows of keys that exist, 64 bytes of a row a quad.
  __device__ void store(__nv_bfloat16* tensor, const Gradient& d, float factor) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = key() + 8 * r;
      const std::int64_t at = (std::int64_t{walk_.batch()} * task_.kv_len + row) * task_.kv_heads + walk_.kv_head();
      __nv_bfloat16* to = tensor + at * T::kHeadDim + 8 * (lane() % 4);
#pragma unroll
      for (int c = 0; c < T::kHeadDim / 32; ++c) {
        std::uint32_t w[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          w[i] = pack_bf16(d[16 * c + 4 * i + 2 * r] * factor, d[16 * c + 4 * i + 2 * r + 1] * factor);
        }
        transpose_quad(w);
        if (row < task_.kv_len) *reinterpret_cast<uint4*>(to + 32 * c) = make_uint4(w[0], w[1], w[2], w[3]);
      }
    }
  }

  const BackwardTask& task_;
  BackwardBarriers<T> barriers_;
  std::uint32_t shared_;
  int warpgroup_;
  BackwardWalk<T> walk_;
  float* dq_to_ = nullptr;
};

/// Warpgroup 0 loads (one thread of it), the others compute.
template <class T>
__global__ void __launch_bounds__(T::kThreads, 1)
    flash_backward(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                   const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap d_o,
                   const __grid_constant__ BackwardTask task) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const std::uint32_t shared = shared_address(memory);
  const BackwardBarriers<T> barriers{shared + T::kBarriersAt};
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  if (threadIdx.x < 128) {
    registers_down<T::kProducerRegisters>();
    if (threadIdx.x == 0) produce_backward<T>(task, &q, &k, &v, &d_o, shared, barriers);
  } else {
    registers_up<T::kConsumerRegisters>();
    BackwardConsumer<T>(task, shared, barriers).run();
  }
}

}  // namespace plumbline::flash
