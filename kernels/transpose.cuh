// The transpose kernel: tiles through shared memory, in an order that keeps both sides' DRAM pages open.
#pragma once

#include <cstdint>

#include "kernels/vector.cuh"

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
TransposeShape cut_transpose(std::int64_t rows, std::int64_t cols) {
  const std::int64_t halo = whole_out(rows) ? 0 : kSector - 1;
  const auto tiles = [](std::int64_t n, int each) { return static_cast<int>((n + each - 1) / each); };
  return {static_cast<int>(rows), static_cast<int>(cols), tiles(rows + halo, T::kRows), tiles(cols, T::kCols)};
}

/// Where element (row, col) of a tile lies: words of two columns; the 16-byte groups of a row are permuted by row / 8,
/// so that whole rows go in and columns come out without bank conflicts.
template <class T>
__device__ int tile_word(int row, int word) {
  return row * (T::kCols / 2) + (word ^ ((row / kVector % 8) * 4));
}

/// Where a thread of the window path finds element (row, col) of a tile. `kVectorIn`: as tile_word says. Otherwise each
/// row was loaded as the aligned vectors that cover it, one more than kCols / 8, so that its elements begin `skip`
/// further; vectors are rotated by row / 8.
template <class T, bool kVectorIn>
struct Held {
  static constexpr int kRowVecs = T::kCols / kVector + (kVectorIn ? 0 : 1);
  unsigned cols, start;  ///< skip of row r: (r cols + start) mod 8

  __device__ static int slot(int row, int v) {
    const int turned = v + row / kVector % 8;
    return turned < kRowVecs ? turned : turned - kRowVecs;
  }
  __device__ int half(int row, int col) const {
    if constexpr (kVectorIn) return 2 * tile_word<T>(row, col / 2) + col % 2;
    const int at = col + static_cast<int>((static_cast<unsigned>(row) * cols + start) % kVector);
    return (row * kRowVecs + slot(row, at / kVector)) * kVector + at % kVector;
  }
};

/// A whole vector from inside the array, or what is left of it.
__device__ inline uint4 load_covering(const bf16* x, std::int64_t at, std::int64_t n) {
  if (at + kVector <= n) return load_once(x + at);
  float e[kVector];
#pragma unroll
  for (int j = 0; j < kVector; ++j) e[j] = at + j < n ? __bfloat162float(x[at + j]) : 0.0F;
  return pack(e);
}

/// Result rows of whole sectors: a thread turns 8 rows of 2 columns into 8 elements of 2 result rows. A warp takes 8
/// groups of 4 column pairs: 128 bytes a result row, every bank once.
template <class T>
__device__ void store_columns(const std::uint32_t* tile, bf16* y, const TransposeShape& s, int row0, int col0, int t) {
  constexpr int kBlocks = T::kRows / kVector / 8;
#pragma unroll
  for (int i = t; i < T::kRows / kVector * T::kCols / 2; i += T::kThreads) {
    const int group = i % 8 + 8 * (i / 32 % kBlocks), word = i / 8 % 4 + 4 * (i / (32 * kBlocks));
    std::uint32_t even[4], odd[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t a = tile[tile_word<T>(group * kVector + 2 * j, word)];
      const std::uint32_t b = tile[tile_word<T>(group * kVector + 2 * j + 1, word)];
      even[j] = __byte_perm(a, b, 0x5410);
      odd[j] = __byte_perm(a, b, 0x7632);
    }
    const int row = row0 + group * kVector, col = col0 + 2 * word;
    if (row >= s.rows) continue;
    bf16* to = y + std::int64_t{col} * s.rows + row;
    if (col < s.cols) store_once(to, make_uint4(even[0], even[1], even[2], even[3]));
    if (col + 1 < s.cols) store_once(to + s.rows, make_uint4(odd[0], odd[1], odd[2], odd[3]));
  }
}

/// Result rows of any length: each one's window of the tile starts where its address is a whole sector.
template <class T, bool kVectorIn, bool kSectorOut>
__device__ void store_windows(const std::uint32_t* tile, bf16* y, const TransposeShape& s, int row0, int col0, int t) {
  constexpr int kBlocks = T::kRows / kVector / 8;
  const auto* halves = reinterpret_cast<const std::uint16_t*>(tile);
  constexpr int kHalo = kSectorOut ? 0 : kSector;
  const Held<T, kVectorIn> where{
      static_cast<unsigned>(s.cols),
      static_cast<unsigned>(row0 - kHalo) * static_cast<unsigned>(s.cols) + static_cast<unsigned>(col0)};
#pragma unroll
  for (int i = t; i < T::kRows / kVector * T::kCols; i += T::kThreads) {
    const int group = i % 8 + 8 * (i / 32 % kBlocks), col = i / 8 % 4 + 4 * (i / (32 * kBlocks));
    if (col0 + col >= s.cols) continue;
    const std::int64_t begin = std::int64_t{col0 + col} * s.rows;
    const int back = kSectorOut ? 0 : static_cast<int>(begin % kSector);
    const int held = kHalo - back + group * kVector, row = row0 - kHalo + held;
    std::uint32_t w[kVector];
#pragma unroll
    for (int j = 0; j < kVector; ++j) w[j] = halves[where.half(held + j, col)];
    if (row >= 0 && row + kVector <= s.rows) {
      const auto two = [&](int j) { return w[j] | w[j + 1] << 16; };
      store_once(y + begin + row, make_uint4(two(0), two(2), two(4), two(6)));
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
  constexpr int kHalo = kSectorOut ? 0 : kSector, kHeldRows = T::kRows + kHalo;
  using At = Held<T, kVectorIn>;
  constexpr int kRowVecs = At::kRowVecs, kLoads = kHeldRows * kRowVecs;
  constexpr int kPasses = (kLoads + T::kThreads - 1) / T::kThreads;
  __shared__ __align__(16) std::uint32_t tile[kLoads * kVector / 2];
  // Tiles go down a column of x: concurrent CTAs write long runs of few result rows.
  const int tile_row = static_cast<int>(blockIdx.x) % s.row_tiles,
            tile_col = static_cast<int>(blockIdx.x) / s.row_tiles;
  const int row0 = tile_row * T::kRows - kHalo, col0 = tile_col * T::kCols, t = static_cast<int>(threadIdx.x);
  uint4 value[kPasses];
#pragma unroll
  for (int p = 0; p < kPasses; ++p) {
    const int i = p * T::kThreads + t, row = row0 + i / kRowVecs, v = i % kRowVecs;
    if (i >= kLoads || row < 0 || row >= s.rows) continue;
    const std::int64_t from = std::int64_t{row} * s.cols + col0;
    if (kVectorIn && col0 + v * kVector < s.cols) value[p] = load_once(x + from + v * kVector);
    if (!kVectorIn) value[p] = load_covering(x, (from / kVector + v) * kVector, std::int64_t{s.rows} * s.cols);
  }
#pragma unroll
  for (int p = 0; p < kPasses; ++p) {
    const int i = p * T::kThreads + t, row = i / kRowVecs, v = i % kRowVecs;
    if (i >= kLoads) continue;
    auto* to = reinterpret_cast<uint4*>(tile);
    if (kVectorIn) to[tile_word<T>(row, v * 4) / 4] = value[p];
    if (!kVectorIn) to[row * kRowVecs + At::slot(row, v)] = value[p];
  }
  __syncthreads();
  if constexpr (kVectorIn && kSectorOut) {
    store_columns<T>(tile, y, s, row0, col0, t);
  } else {
    store_windows<T, kVectorIn, kSectorOut>(tile, y, s, row0 + kHalo, col0, t);
  }
}

}  // namespace plumbline::device
