// The Hopper GEMM: one template for all tiles, bf16, fp16 and fp8. D[rows, cols] = R[rows, K] C[cols, K]^T, where R is on the
// row side of wgmma. R = x, C = W gives y as it lies; swapped, R = W and C = x give its transpose, and the epilogue
// turns it back: so a tile of 128 x 256 is also one of 256 x 128, and few tokens take the narrow side.
//
// One CTA: a producer warp that keeps a ring of `kStages` steps (kRows + kCols rows of 128 bytes of K) full by TMA, and
// a consumer warpgroup for each 64 rows. Persistent: the ring runs on into the next tile while the consumers store.
#pragma once

#include "kernels/common/half.cuh"
#include "kernels/gemm/gemm_sm90_ptx.cuh"
#include "kernels/gemm/gemm_sm90_wgmma.cuh"
#include "kernels/gemm/gemm_sm90_work.cuh"

namespace plumbline::device::sm90 {

/// A box for this CTA, or for all kShared of its cluster.
template <int kShared>
__device__ void load(std::uint32_t to, const CUtensorMap* map, std::uint32_t full, int x, int y, int batch) {
  if constexpr (kShared > 1) {
    load_box_multicast(to, map, full, x, y, batch, static_cast<std::uint16_t>((1 << kShared) - 1));
  } else {
    load_box(to, map, full, x, y, batch);
  }
}

/// One operand's share of this CTA in a tile: `there` rows of a box of kBox. kOutside: it lies as [K, rows], in boxes of 64
/// elements of a row, 64 rows each. kShared: CTAs that each take a copy.
template <int kBox, bool kOutside, int kShared = 1>
struct OperandShare {
  const CUtensorMap* map;
  int first, there;

  __device__ OperandShare(const CUtensorMap* whole, const CUtensorMap* last, int first_row, int all)
      : map(whole), first(first_row), there(rows_there(first_row, all, kBox)) {
    if (!kOutside && there < kBox) map = last;
  }
  /// Bytes of a step of `rows` rows.
  __device__ static int step_bytes(int rows) {
    return (kOutside ? (rows + kOutsideBox - 1) / kOutsideBox * kOutsideBox : rows) * kStepBytes;
  }
  __device__ void load_step(std::uint32_t to, std::uint32_t full, int k, int batch) const {
    if constexpr (kOutside) {
#pragma unroll
      for (int i = 0; i < kBox; i += kOutsideBox) {
        if (i < there) load<kShared>(to + static_cast<std::uint32_t>(i * kStepBytes), map, full, first + i, k, batch);
      }
    } else {
      if (there > 0) load<kShared>(to, map, full, k, first, batch);
    }
  }
};

/// One thread: every step of every unit of this CTA. In a cluster each CTA loads its share of the common columns and
/// multicasts it, so a stage is free only once the consumers of all of them have released it. Rows that are not there are not
/// loaded: what the ring holds in their places only reaches results that are not there either.
template <class Tile>
__device__ void produce(const GemmMaps& maps, const GemmWork& w, const GemmShared<Tile>& shared, int rank,
                        GemmWalk walk) {
  RingPlace<Tile> at;
  constexpr int kShare = Tile::kCols / Tile::kCluster;
  using Rows = OperandShare<Tile::kRows, Tile::kRowsOutside>;
  using Cols = OperandShare<kShare, Tile::kColsOutside, Tile::kCluster>;
  for (int index = walk.first; index < walk.end; index += walk.step) {
    const GemmUnit u = GemmUnit::at(w, index);
    const GemmPlace p = GemmPlace::of<Tile>(w, u.tile, rank);
    const int col = p.col_tile * Tile::kCols;
    const Rows rows(&maps.rows, &maps.last_rows, p.row_tile * Tile::kRows, w.rows);
    const Cols cols(&maps.cols, &maps.last_cols, col + rank * kShare, w.cols);
    const int bytes = Rows::step_bytes(rows.there) + Cols::step_bytes(rows_there(col, w.cols, Tile::kCols));
    for (int step = u.first; step < u.last; ++step) {
      barrier_wait(shared.empty_at(at.stage), at.parity ^ 1);
      const std::uint32_t full = shared.full_at(at.stage);
      barrier_expect(full, bytes);
      const int k = step * Tile::kStepElements;
      rows.load_step(shared.rows_at(at.stage), full, k, p.batch);
      cols.load_step(shared.cols_at(at.stage) + static_cast<std::uint32_t>(rank * kShare * kStepBytes), full, k,
                     p.batch);
      at.next();
    }
  }
}

/// One warpgroup's rows of a tile, in blocks of 64.
template <class Tile>
struct Consumer {
  static constexpr int kBlockSums = Tile::kCols / 2, kAccumulators = Tile::kBlocks * kBlockSums;
  const GemmWork& w;
  const GemmShared<Tile>& shared;
  int rank, group, thread;
  RingPlace<Tile> at{};
  int turn =
      0;  ///< of the staging buffers, whatever the tile: an odd number of chunks must not reuse one twice running
  float d[kAccumulators];

  /// Each warp tells every CTA that writes into this one.
  __device__ void release(int stage) const {
    const int lane = thread % 32;
    if constexpr (Tile::kCluster > 1) {
      if (lane < Tile::kCluster) barrier_arrive_at(shared.empty_at(stage), lane);
    } else {
      if (lane == 0) barrier_arrive(shared.empty_at(stage));
    }
  }

  /// `steps` steps into the accumulators, from zero. One group of instructions stays in flight while the stage of the
  /// group before it is released.
  __device__ void multiply(int steps) {
    int unreleased = -1;
    for (int step = 0; step < steps; ++step) {
      barrier_wait(shared.full_at(at.stage), at.parity);
      constexpr int kBlockBytes = 64 * kStepBytes;
      constexpr int kRowStep = step_of<Tile::kRowsOutside>, kColStep = step_of<Tile::kColsOutside>;
      const std::uint64_t rows = operand<Tile::kRowsOutside>(
          shared.rows_at(at.stage) + static_cast<std::uint32_t>(group * Tile::kBlocks * kBlockBytes));
      const std::uint64_t cols = operand<Tile::kColsOutside>(shared.cols_at(at.stage));
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < kStepBytes / 32; ++i) {  // 32 bytes of K an instruction
#pragma unroll
        for (int block = 0; block < Tile::kBlocks; ++block) {
          Wgmma<Tile::kCols, Tile::kOperands>::run(
              reinterpret_cast<float(&)[kBlockSums]>(d[block * kBlockSums]),
              rows + static_cast<std::uint64_t>(kRowStep * i + block * kBlockBytes / 16),
              cols + static_cast<std::uint64_t>(kColStep * i), step > 0 || i > 0);
        }
      }
      wgmma_commit();
      if (unreleased >= 0) {
        wgmma_wait<1>();
        release(unreleased);
      }
      unreleased = at.stage;
      at.next();
    }
    wgmma_wait<0>();
    if (unreleased >= 0) release(unreleased);
  }

  /// Hopper's fp8 instructions keep 14 significant bits of a sum that they carry on: a long K needs a second set of
  /// accumulators, to which the first is added every kPromote steps.
  __device__ void multiply_promoted(int steps, float (&sum)[kAccumulators]) {
#pragma unroll
    for (float& v : sum) v = 0;
    for (int done = 0; done < steps; done += Tile::kPromote) {
      multiply(min(Tile::kPromote, steps - done));
#pragma unroll
      for (int i = 0; i < kAccumulators; ++i) sum[i] += d[i];
    }
  }

  __device__ void run(const CUtensorMap* out_map, GemmWalk walk) {
    for (int index = walk.first; index < walk.end; index += walk.step) {
      const GemmUnit u = GemmUnit::at(w, index);
      if constexpr (Tile::kPromote > 0) {
        float sum[kAccumulators];
        multiply_promoted(u.last - u.first, sum);
        finish(sum, out_map, u);
      } else {
        multiply(u.last - u.first);
        finish(d, out_map, u);
      }
    }
    if (thread == 0) store_wait_read<0>();  // shared memory must outlive the copies
  }

  __device__ void finish(float (&sum)[kAccumulators], const CUtensorMap* out_map, const GemmUnit& u) {
    if (u.parts == 1 || combine(sum, u)) store(sum, out_map, GemmPlace::of<Tile>(w, u.tile, rank));
  }

  /// Where the sums of a part of a tile wait.
  __device__ float4* part_at(const GemmUnit& u, int part) const {
    const std::int64_t slot = (std::int64_t{u.tile} * w.splits + part) * Tile::kCluster + rank;
    return reinterpret_cast<float4*>(w.partials + slot * Tile::kRows * Tile::kCols +
                                     group * Tile::kBlocks * 64 * Tile::kCols) +
           thread;
  }

  /// Leaves this part's sums in the workspace. The last of the tile's parts to come adds them all, in their order, so
  /// that the result does not depend on who was last.
  __device__ bool combine(float (&sum)[kAccumulators], const GemmUnit& u) {
    constexpr int kVectors = kAccumulators / 4;
    float4* mine = part_at(u, u.part);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      __stcg(mine + i * kGroup, make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]));
    }
    if (!last_to_come(u)) return false;
#pragma unroll
    for (float& v : sum) v = 0;
    constexpr int kAtOnce = kVectors >= 16 ? 1 : 16 / kVectors;  // loads in flight: 16 vectors
#pragma unroll kAtOnce
    for (int part = 0; part < u.parts; ++part) {
      const float4* from = part_at(u, part);
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const float4 v = __ldcg(from + i * kGroup);
        sum[4 * i] += v.x;
        sum[4 * i + 1] += v.y;
        sum[4 * i + 2] += v.z;
        sum[4 * i + 3] += v.w;
      }
    }
    return true;
  }

  __device__ bool last_to_come(const GemmUnit& u) const {
    named_barrier(group + 1, kGroup);
    if (thread == 0) {
      unsigned* counter = w.counters + (u.tile * Tile::kCluster + rank) * Tile::kConsumers + group;
      __threadfence();
      const bool last = atomicAdd(counter, 1U) + 1 == static_cast<unsigned>(u.parts);
      if (last) *counter = 0;
      __threadfence();
      shared.flags[group] = last;
    }
    named_barrier(group + 1, kGroup);
    return shared.flags[group] != 0;
  }

  /// As 16-bit values through shared memory, kChunk columns of D at a time, and out by TMA, which clips what is beyond the
  /// matrix.
  __device__ void store(const float (&sum)[kAccumulators], const CUtensorMap* out_map, const GemmPlace& p) {
#pragma unroll
    for (int turns = 0; turns < Tile::kBlocks * Tile::kChunks; ++turns) {
      const int block = turns / Tile::kChunks, chunk = turns % Tile::kChunks;
      const int row = p.row_tile * Tile::kRows + (group * Tile::kBlocks + block) * 64;
      const int buffer = group * Tile::kStores + turn;
      turn = (turn + 1) % Tile::kStores;
      const std::uint32_t to = shared.staging + static_cast<std::uint32_t>(buffer * Tile::kChunkBytes);
      if (thread == 0) store_wait_read<Tile::kStores - 1>();
      named_barrier(group + 1, kGroup);
      const float* v = sum + block * kBlockSums + chunk * Tile::kChunk / 2;
      if constexpr (Tile::kFloats) {
        put_floats(to, v);
      } else {
#pragma unroll
        for (int pair = 0; pair < Tile::kChunk / 16; ++pair, v += 8) {
          std::uint32_t packed[4];
#pragma unroll
          for (int i = 0; i < 4; ++i)
            packed[i] = pack_two<typename Tile::Result>(v[2 * i] * w.scale, v[2 * i + 1] * w.scale);
          put(to, pair, packed);
        }
      }
      async_proxy_fence();
      named_barrier(group + 1, kGroup);
      if (thread == 0) {
        const int col = p.col_tile * Tile::kCols + chunk * Tile::kChunk;
        if (Tile::kFloats && w.add != 0) add_box(out_map, to, col, row, p.batch);
        else store_box(out_map, to, w.swapped ? row : col, w.swapped ? col : row, p.batch);
        store_commit();
      }
    }
  }

  /// 32 columns of D as they are: rows of 128 bytes, pieces of 16 bytes swizzled by row % 8.
  __device__ void put_floats(std::uint32_t to, const float* v) const {
    const int row = thread / 32 * 16 + thread % 32 / 4, lane = thread % 4;
#pragma unroll
    for (int i = 0; i < Tile::kChunk / 8; ++i, v += 4) {
      const int piece = (2 * i + lane / 2) ^ (row % 8);
      const std::uint32_t at = to + static_cast<std::uint32_t>(row * 128 + piece * 16 + lane % 2 * 8);
      store_pair(at, v[0] * w.scale, v[1] * w.scale);
      store_pair(at + 8 * 128, v[2] * w.scale, v[3] * w.scale);
    }
  }

  /// Four 8x8 matrices: 16 rows of this warp, 16 columns. Staged are rows of y: 64 elements of them (128 bytes, pieces
  /// of 16 bytes swizzled by row % 8), or kChunk where D lies as y does (64 bytes: by row / 2 % 4). Lane l gives the
  /// address of row l % 8 of matrix l / 8.
  __device__ void put(std::uint32_t to, int pair, const std::uint32_t (&packed)[4]) const {
    const int warp = thread / 32, lane = thread % 32;
    if (w.swapped) {
      const int row = pair * 16 + lane / 16 * 8 + lane % 8, piece = warp * 2 + lane / 8 % 2;
      store_matrices_transposed(to + static_cast<std::uint32_t>(row * 128 + ((piece ^ (row % 8)) * 16)), packed);
    } else {
      const int row = warp * 16 + lane % 16, piece = pair * 2 + lane / 16;
      const int swizzled = piece ^ (Tile::kChunk == 64 ? row % 8 : Tile::kChunk == 32 ? row / 2 % 4 : 0);
      store_matrices(to + static_cast<std::uint32_t>(row * Tile::kChunk * 2 + swizzled * 16), packed);
    }
  }
};

constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;  // (40 + 2 x 232) x 128 of 64 Ki

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kCtasPerSm)
    gemm(const __grid_constant__ GemmMaps maps, const GemmWork w) {
  extern __shared__ __align__(1024) unsigned char raw[];  // a swizzle atom
  const GemmShared<Tile> shared(raw);
  const int rank = Tile::kCluster > 1 ? cluster_rank() : 0;
  if (threadIdx.x == 0) {
    prefetch_map(&maps.rows);
    prefetch_map(&maps.cols);
    prefetch_map(&maps.out);
    for (int i = 0; i < Tile::kStages; ++i) {
      barrier_init(shared.full_at(i), 1);
      barrier_init(shared.empty_at(i), Tile::kConsumers * 4 * Tile::kCluster);
    }
    barrier_init_fence();
  }
  if constexpr (Tile::kCluster > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }

  const int cluster = static_cast<int>(blockIdx.x) / Tile::kCluster;
  const int clusters = static_cast<int>(gridDim.x) / Tile::kCluster;
  const int tiles = w.row_tiles / Tile::kCluster * w.col_tiles * w.batch;
  const GemmWalk walk{cluster, clusters, tiles + w.shared * (w.splits - 1)};
  const int group = static_cast<int>(threadIdx.x) / kGroup;
  if (group == Tile::kConsumers) {
    if constexpr (Tile::kMovesRegisters) registers_down<kProducerRegisters>();
    if (threadIdx.x == Tile::kConsumers * kGroup) {
      produce<Tile>(maps, w, shared, rank, walk);
    }
  } else {
    if constexpr (Tile::kMovesRegisters) registers_up<kConsumerRegisters>();
    Consumer<Tile> consumer{w, shared, rank, group, static_cast<int>(threadIdx.x) % kGroup};
    consumer.run(&maps.out, walk);
  }
  __syncwarp();
  if constexpr (Tile::kCluster > 1) cluster_sync();  // a peer may still multicast to this CTA, or arrive in it
}

}  // namespace plumbline::device::sm90
