// The transpose kernel: tiles through shared memory, in an order that keeps both sides' DRAM pages open.
#pragma once

#include <cstdint>

#include "kernels/common/vector.cuh"

namespace plumbline::device {

/// kRows x kCols elements of x by kThreads.
template <int kRows_, int kCols_, int kThreads_>
struct Tile {
  static constexpr int kRows = kRows_, kCols = kCols_, kThreads = kThreads_;
};
using WholeTile = Tile<128, 128, 512>;  ///< both sides whole sectors
using OddTile = Tile<64, 128, 256>;     ///< either is not: smaller, as its rows outside the window cost shared memory
constexpr int kSector = 16;             ///< bf16 elements in the 32 bytes that DRAM traffic is counted in

struct TransposeShape {
  int rows, cols, row_tiles, col_tiles;
};

inline bool whole_in(std::int64_t cols) { return cols % kVector == 0; }
inline bool whole_out(std::int64_t rows) { return rows % kSector == 0; }

template <class T>
TransposeShape transpose_shape(std::int64_t rows, std::int64_t cols) {
  const std::int64_t halo = whole_out(rows) ? 0 : kSector - 1;
  const auto tiles = [](std::int64_t n, int each) { return static_cast<int>((n + each - 1) / each); };
  return {static_cast<int>(rows), static_cast<int>(cols), tiles(rows + halo, T::kRows), tiles(cols, T::kCols)};
}

// Tiles whose rows were loaded as whole vectors: words of two columns; the 16-byte groups of a row are permuted by
// row / 8, so that whole rows go in and columns come out without bank conflicts. Index arithmetic decides the speed of
// these kernels, so it is unsigned and the permutation is worked out once for 8 rows.
__device__ inline std::uint32_t permuted(std::uint32_t word, std::uint32_t eighth) { return word ^ (eighth % 8 * 4); }

// Tiles of rows of any alignment: each row is held as the aligned vectors that cover it, one more than its length, so
// its elements begin (address mod 8) further; its vectors are rotated by row / 8.
template <class T>
constexpr std::uint32_t kCoverVecs = T::kCols / kVector + 1;
template <class T>
__device__ std::uint32_t rotated(std::uint32_t element, std::uint32_t eighth) {
  constexpr std::uint32_t kRow = kCoverVecs<T> * kVector;
  const std::uint32_t at = element + eighth % 8 * kVector;
  return min(at, at - kRow);  // unsigned: at - kRow is huge while at < kRow
}

/// A whole vector from inside the array, or what is left of it.
__device__ inline uint4 load_covering(const bf16* x, std::int64_t at, std::int64_t n) {
  if (at + kVector <= n) return load_vector(x + at);
  float e[kVector];
#pragma unroll
  for (int j = 0; j < kVector; ++j) e[j] = at + j < n ? __bfloat162float(x[at + j]) : 0.0F;
  return pack(e);
}

/// Result rows of whole sectors: a thread turns 8 rows of 2 columns into 8 elements of 2 result rows. A warp takes 8
/// groups of 4 column pairs: 128 bytes a result row, every bank once.
template <class T>
__device__ void store_columns(const std::uint32_t* tile, bf16* y, const TransposeShape& s, int row0, int col0) {
  constexpr std::uint32_t kBlocks = T::kRows / kVector / 8, kPitch = T::kCols / 2;
#pragma unroll
  for (std::uint32_t i = threadIdx.x; i < T::kRows / kVector * kPitch; i += T::kThreads) {
    const std::uint32_t group = i % 8 + 8 * (i / 32 % kBlocks), word = i / 8 % 4 + 4 * (i / (32 * kBlocks));
    const std::uint32_t* from = tile + group * kVector * kPitch + permuted(word, group);
    std::uint32_t even[4], odd[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t a = from[2 * j * kPitch], b = from[(2 * j + 1) * kPitch];
      even[j] = __byte_perm(a, b, 0x5410);
      odd[j] = __byte_perm(a, b, 0x7632);
    }
    const int row = row0 + static_cast<int>(group * kVector), col = col0 + static_cast<int>(2 * word);
    if (row >= s.rows) continue;
    bf16* to = y + std::int64_t{col} * s.rows + row;
    if (col < s.cols) store_vector(to, make_uint4(even[0], even[1], even[2], even[3]));
    if (col + 1 < s.cols) store_vector(to + s.rows, make_uint4(odd[0], odd[1], odd[2], odd[3]));
  }
}

/// 8 elements of column `col` of the tile, from row `held` on.
template <class T, bool kVectorIn>
__device__ void read_column(const std::uint16_t* tile, std::uint32_t held, std::uint32_t col, std::uint32_t cols,
                            std::uint32_t start, std::uint32_t (&w)[kVector]) {
  const std::uint32_t eighth = held / kVector, left = kVector - held % kVector;  // rows before row / 8 changes
  if constexpr (kVectorIn) {
    const std::uint16_t* from = tile + held * T::kCols + col % 2;
    const std::uint32_t first = 2 * permuted(col / 2, eighth), then = 2 * permuted(col / 2, eighth + 1);
#pragma unroll
    for (std::uint32_t j = 0; j < kVector; ++j) w[j] = from[j * T::kCols + (j < left ? first : then)];
  } else {
    constexpr std::uint32_t kRow = kCoverVecs<T> * kVector;
    const std::uint16_t* from = tile + held * kRow;
    std::uint32_t skip = held * cols + start;
#pragma unroll
    for (std::uint32_t j = 0; j < kVector; ++j, skip += cols) {
      w[j] = from[j * kRow + rotated<T>(col + skip % kVector, j < left ? eighth : eighth + 1)];
    }
  }
}

/// Result rows of any length: each one's window of the tile starts where its address is a whole sector.
template <class T, bool kVectorIn, bool kSectorOut>
__device__ void store_windows(const std::uint32_t* tile, bf16* y, const TransposeShape& s, int row0, int col0) {
  constexpr std::uint32_t kBlocks = T::kRows / kVector / 8, kHalo = kSectorOut ? 0 : kSector;
  const auto cols = static_cast<std::uint32_t>(s.cols);
  const std::uint32_t start = static_cast<std::uint32_t>(row0) * cols + static_cast<std::uint32_t>(col0);
#pragma unroll
  for (std::uint32_t i = threadIdx.x; i < T::kRows / kVector * T::kCols; i += T::kThreads) {
    const std::uint32_t group = i % 8 + 8 * (i / 32 % kBlocks), col = i / 8 % 4 + 4 * (i / (32 * kBlocks));
    if (col0 + static_cast<int>(col) >= s.cols) continue;
    const std::int64_t begin = std::int64_t{col0 + static_cast<int>(col)} * s.rows;
    const std::uint32_t back = kSectorOut ? 0 : static_cast<std::uint32_t>(begin) % kSector;
    const std::uint32_t held = kHalo - back + group * kVector;
    const int row = row0 + static_cast<int>(held);
    std::uint32_t w[kVector];
    read_column<T, kVectorIn>(reinterpret_cast<const std::uint16_t*>(tile), held, col, cols, start, w);
    if (row >= 0 && row + kVector <= s.rows) {
      const auto two = [&](int j) { return __byte_perm(w[j], w[j + 1], 0x5410); };
      store_vector(y + begin + row, make_uint4(two(0), two(2), two(4), two(6)));
      continue;
    }
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      if (row + j >= 0 && row + j < s.rows) y[begin + row + j] = __ushort_as_bfloat16(static_cast<std::uint16_t>(w[j]));
    }
  }
}

/// y[cols, rows] = x[rows, cols]^T. `kVectorIn`: rows of x are whole vectors. `kSectorOut`: rows of y are whole
/// sectors; otherwise each result row's window starts up to 15 rows earlier, where its address is a whole sector, and
/// the tile has that many more rows.
template <class T, bool kVectorIn, bool kSectorOut>
__global__ void __launch_bounds__(T::kThreads) transpose(const bf16* x, bf16* y, TransposeShape s) {
  constexpr std::uint32_t kHalo = kSectorOut ? 0 : kSector, kHeldRows = T::kRows + kHalo;
  constexpr std::uint32_t kRowVecs = kVectorIn ? T::kCols / kVector : kCoverVecs<T>, kLoads = kHeldRows * kRowVecs;
  constexpr std::uint32_t kPasses = (kLoads + T::kThreads - 1) / T::kThreads;
  __shared__ __align__(16) std::uint32_t tile[kLoads * kVector / 2];
  // Tiles go down a column of x: concurrent CTAs write long runs of few result rows.
  const std::uint32_t tile_col = blockIdx.x / static_cast<std::uint32_t>(s.row_tiles);
  const std::uint32_t tile_row = blockIdx.x - tile_col * static_cast<std::uint32_t>(s.row_tiles);
  const int row0 = static_cast<int>(tile_row * T::kRows) - static_cast<int>(kHalo);
  const int col0 = static_cast<int>(tile_col * T::kCols);
  uint4 value[kPasses];
#pragma unroll
  for (std::uint32_t p = 0; p < kPasses; ++p) {
    const std::uint32_t i = p * T::kThreads + threadIdx.x, v = i % kRowVecs;
    const int row = row0 + static_cast<int>(i / kRowVecs);
    if (i >= kLoads || row < 0 || row >= s.rows) continue;
    const std::int64_t from = std::int64_t{row} * s.cols + col0;
    if constexpr (kVectorIn) {
      if (col0 + static_cast<int>(v * kVector) < s.cols) value[p] = load_vector(x + from + v * kVector);
    } else {
      value[p] = load_covering(x, (from & ~std::int64_t{kVector - 1}) + v * kVector, std::int64_t{s.rows} * s.cols);
    }
  }
#pragma unroll
  for (std::uint32_t p = 0; p < kPasses; ++p) {
    const std::uint32_t i = p * T::kThreads + threadIdx.x, held = i / kRowVecs, v = i % kRowVecs;
    const std::uint32_t at =
        kVectorIn ? permuted(v * 4, held / kVector) / 4 : rotated<T>(v * kVector, held / kVector) / kVector;
    if (i < kLoads) reinterpret_cast<uint4*>(tile)[held * kRowVecs + at] = value[p];
  }
  __syncthreads();
  if constexpr (kVectorIn && kSectorOut) {
    store_columns<T>(tile, y, s, row0, col0);
  } else {
    store_windows<T, kVectorIn, kSectorOut>(tile, y, s, row0, col0);
  }
}

}  // namespace plumbline::device
