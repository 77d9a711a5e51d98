// What the CTAs of the Hopper GEMM share out: tiles and their parts, where they lie, the ring and shared memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/common/half.cuh"
#include "kernels/gemm/gemm_sm90_ptx.cuh"
#include "kernels/gemm/gemm_sm90_wgmma.cuh"

namespace plumbline::device::sm90 {

constexpr int kStepBytes = 128;  // of K, a step: the span of the swizzle
constexpr int kGroup = 128;      // threads of a warpgroup

/// What is multiplied. Tiles are counted on the row and the column side of wgmma.
struct GemmWork {
  int row_tiles = 0;  ///< whole clusters
  int col_tiles = 0, batch = 1;
  int rows = 0, cols = 0;  ///< that boxes may ask for: the operands', or those of whole tiles
  int steps = 0;           ///< of K, whole product
  int shared = 0;          ///< this many tiles, the first ones, are split along K ...
  int splits = 1;          ///< ... into this many parts
  int band = 1;            ///< clusters of row tiles that are walked together, for reuse in L2
  int swapped = 0;
  int add = 0;  ///< D in fp32: is added to what is there
  float scale = 1;
  float* partials = nullptr;     ///< [shared tile][part][rank][kRows * kCols], in the order of the fragments
  unsigned* counters = nullptr;  ///< [shared tile][rank][warpgroup], zero before and after
};

/// Maps of both operands and of D. An operand's last rows, fewer than a box, have a map whose box is just these: rows of a box
/// outside of its tensor are asked of L2 all the same (tools/rows_outside.cu).
struct GemmMaps {
  CUtensorMap rows, last_rows, cols, last_cols, out;
};

template <int kRows_, int kCols_, int kStages_, int kCluster_, int kCtasPerSm_, Operands kOperands_, int kPromote_,
          bool kFloats_ = false>
struct GemmTile {
  static constexpr int kRows = kRows_, kCols = kCols_, kStages = kStages_, kCluster = kCluster_;
  static constexpr int kCtasPerSm = kCtasPerSm_;
  static constexpr Operands kOperands = kOperands_;
  static constexpr bool kFp8 = kOperands == Operands::fp8;
  using Result = std::conditional_t<kOperands == Operands::fp16, __half, __nv_bfloat16>;  // or fp32 (kFloats)
  /// Which operands lie with K as the outer index, [K, rows] and [K, cols].
  static constexpr bool kRowsOutside = kOperands == Operands::bf16_both_outside;
  static constexpr bool kColsOutside = kRowsOutside || kOperands == Operands::bf16_cols_outside;
  static constexpr bool kFloats = kFloats_;  ///< D in fp32, stored or added to what is there
  /// Steps after which the accumulators are added to a second set in full fp32; 0: never.
  static constexpr int kPromote = kPromote_;
  static constexpr int kConsumers = kRows < 128 ? 1 : 2;   // warpgroups
  static constexpr int kBlocks = kRows / 64 / kConsumers;  // of 64 rows, a warpgroup
  /// Two consumers that have the SM to themselves need more registers than an even share. Registers move between whole
  /// warpgroups only, so there the producer is one; else it is a warp.
  static constexpr bool kMovesRegisters = kConsumers == 2 && kCtasPerSm == 1;
  static constexpr int kThreads = kGroup * kConsumers + (kMovesRegisters ? kGroup : 32);
  static constexpr int kStepElements = kStepBytes / (kFp8 ? 1 : 2);
  static constexpr int kRowBytes = kRows * kStepBytes, kColBytes = kCols * kStepBytes;
  /// Columns of D staged at a time: 128 bytes of a row, or what divides the tile.
  static constexpr int kChunk = kFloats || kCols % 64 != 0 ? (kCols % 32 == 0 ? 32 : 16) : 64;
  static constexpr int kChunks = kCols / kChunk;
  static constexpr int kChunkBytes = 64 * kChunk * (kFloats ? 4 : 2);
  /// Chunks of a warpgroup on their way out at a time.
  static constexpr int kStores = kChunks == 1 || kCtasPerSm > 1 ? 1 : kChunk == 16 ? 4 : 2;
  static constexpr int kRing = kStages * (kRowBytes + kColBytes);
  static constexpr int kStaging = kConsumers * kStores * kChunkBytes;
  static constexpr int kSharedBytes = kRing + kStaging + kStages * 2 * 8 + 4 * kConsumers;
  static_assert((!kFloats || kChunk == 32) && (!kColsOutside || kCols % (64 * kCluster) == 0));
  static_assert(kCols % kChunk == 0 && (kCluster == 1 || kCols % (8 * kCluster) == 0));
  static_assert(kSharedBytes <= 227 * 1024 && kCtasPerSm * (kSharedBytes + 1024) <= 228 * 1024);
};

/// The K steps of one tile, all of them or one part. A "tile" is a cluster of row tiles here: each of its CTAs takes
/// one.
struct GemmUnit {
  int tile = 0, first = 0, last = 0;
  int part = 0, parts = 1;

  /// Units in order: the parts of the shared tiles, then the whole tiles.
  __device__ static GemmUnit at(const GemmWork& w, int index) {
    const int cut = w.shared * w.splits;
    if (index >= cut) return {w.shared + index - cut, 0, w.steps, 0, 1};
    const int tile = index / w.splits, part = index - tile * w.splits;
    const auto begin = [&](int p) { return static_cast<int>(std::int64_t{w.steps} * p / w.splits); };
    return {tile, begin(part), begin(part + 1), part, w.splits};
  }
};

/// The units of one cluster: every `step`-th.
struct GemmWalk {
  int first = 0, step = 1, end = 0;
};

/// Where a tile lies in the result. Row tiles run fastest inside a band of them, then columns, so that the tiles in
/// flight at a time cover about a square.
struct GemmPlace {
  int row_tile = 0, col_tile = 0, batch = 0;

  template <class Tile>
  __device__ static GemmPlace of(const GemmWork& w, int tile, int rank) {
    GemmPlace p;
    const int clusters = w.row_tiles / Tile::kCluster;
    p.batch = tile / (clusters * w.col_tiles);
    const int in_matrix = tile - p.batch * clusters * w.col_tiles;
    const int band = in_matrix / (w.band * w.col_tiles), in_band = in_matrix - band * w.band * w.col_tiles;
    const int height = min(w.band, clusters - band * w.band);
    p.col_tile = in_band / height;
    p.row_tile = (band * w.band + in_band - p.col_tile * height) * Tile::kCluster + rank;
    return p;
  }
};

/// Rows from `first` on, at most `box`, of the `all` there are.
__device__ inline int rows_there(int first, int all, int box) { return max(0, min(box, all - first)); }

/// Place in the ring: stage and the parity of its current use.
template <class Tile>
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ void next() {
    if (++stage == Tile::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// Shared memory: ring of row operands, ring of column operands, chunks on their way out, barriers, flags.
template <class Tile>
struct GemmShared {
  std::uint32_t rows, cols, staging, full, empty;
  unsigned* flags;

  __device__ explicit GemmShared(unsigned char* raw) {
    rows = shared_address(raw);
    cols = rows + Tile::kStages * Tile::kRowBytes;
    staging = rows + Tile::kRing;
    full = staging + Tile::kStaging;
    empty = full + Tile::kStages * 8;
    flags = reinterpret_cast<unsigned*>(raw + (empty + Tile::kStages * 8 - rows));
  }
  __device__ std::uint32_t full_at(int stage) const { return full + static_cast<std::uint32_t>(stage) * 8; }
  __device__ std::uint32_t empty_at(int stage) const { return empty + static_cast<std::uint32_t>(stage) * 8; }
  __device__ std::uint32_t rows_at(int stage) const {
    return rows + static_cast<std::uint32_t>(stage * Tile::kRowBytes);
  }
  __device__ std::uint32_t cols_at(int stage) const {
    return cols + static_cast<std::uint32_t>(stage * Tile::kColBytes);
  }
};

}  // namespace plumbline::device::sm90
