// Device code of the portable GEMM: mma.sync m16n8k16 (bf16 or fp16, fp32 sums), ldmatrix, cp.async. Any sm_80 or later.
//
// "Rows" and "columns" are the sides of the tensor instruction: A [rows, k] and B [cols, k], both with k contiguous;
// which operand is which is the launcher's business (GemmPlan::swapped).
#pragma once

#include <cstdint>

#include "kernels/common/mma_sync.cuh"
#include "kernels/common/vector.cuh"

namespace plumbline::device {

/// One CTA's tile, `kStep` elements of K at a time through a ring of `kStages`, over kWarpsR x kWarpsC warps.
template <class E_, int kRows_, int kCols_, int kStep_, int kStages_, int kWarpsR_, int kWarpsC_, int kCtas_>
struct PortableTile {
  using E = E_;
  static constexpr int kRows = kRows_, kCols = kCols_, kStep = kStep_, kStages = kStages_;
  static constexpr int kWarpsR = kWarpsR_, kWarpsC = kWarpsC_, kCtas = kCtas_;
  static constexpr int kThreads = kWarp * kWarpsR * kWarpsC;
  static constexpr int kWarpRows = kRows / kWarpsR, kWarpCols = kCols / kWarpsC;
  static constexpr int kRowTiles = kWarpRows / 16, kColTiles = kWarpCols / 8;
  static constexpr int kSubsteps = kStep / 16;
  static constexpr int kStageBytes = (kRows + kCols) * kStep * 2;
  static constexpr int kPad = 8;  // elements a row of the staged result, against bank conflicts
  static constexpr int kResultBytes =
      2 * (kRows * (kCols + kPad) > kCols * (kRows + kPad) ? kRows * (kCols + kPad) : kCols * (kRows + kPad));
  static constexpr int kSharedBytes = kStages * kStageBytes > kResultBytes ? kStages* kStageBytes : kResultBytes;
  static_assert(kWarpRows % 16 == 0 && kWarpCols % 16 == 0 && (kStep == 32 || kStep == 64) && kStages >= 3);
};

struct PortableArgs {
  const void* a;
  const void* b;
  void* y;
  float* partial;  // [splits, batch, M, partial_width], or null: the result goes to y
  int rows, cols, k;
  int tiles_r, tiles_c;
  std::int64_t partial_width;
  float scale;
  bool swapped;  // A is W: the result's row index is the column side's
};

/// 16-byte chunk `chunk` of a row lies at this one: the eight rows that ldmatrix reads together take all 32 banks.
template <int kStep>
__device__ constexpr int swizzle(int row) {
  return kStep == 64 ? row & 7 : (row >> 1) & 3;
}

/// How rows of K begin: at whole chunks of 8 elements, at pairs, or anywhere.
enum class Rows { chunks, pairs, elements };

/// This thread's share of one operand's stages: the same chunk of every kRowsAtOnce-th row. Rows and elements past the
/// end arrive as zeros.
template <class T, int kTileRows, Rows kRows>
struct OperandLoader {
  static constexpr int kChunks = T::kStep / kVector;
  static constexpr int kRowsAtOnce = T::kThreads / kChunks;
  static constexpr int kTurns = (kTileRows + kRowsAtOnce - 1) / kRowsAtOnce;
  static_assert(kRowsAtOnce % 8 == 0 && kTurns <= 32);

  using E = typename T::E;
  const E* from;
  std::int64_t turn;
  std::uint32_t to;  // offset in the operand's part of a stage
  std::uint32_t valid = 0;
  int first_k, k;

  __device__ OperandLoader(const E* base, int first_row, int rows, int k_) : k(k_) {
    const int row = static_cast<int>(threadIdx.x) / kChunks, chunk = static_cast<int>(threadIdx.x) % kChunks;
    first_k = chunk * kVector;
    from = base + std::int64_t{first_row + row} * k + first_k;
    turn = std::int64_t{kRowsAtOnce} * k;
    to = static_cast<std::uint32_t>(row * T::kStep * 2 + ((chunk ^ swizzle<T::kStep>(row)) << 4));
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      if (first_row + row + i * kRowsAtOnce < rows) valid |= 1U << i;
    }
  }

  __device__ bool in_tile(int i) const {
    return kTileRows % kRowsAtOnce == 0 || static_cast<int>(threadIdx.x) / kChunks + i * kRowsAtOnce < kTileRows;
  }

  __device__ void load(std::uint32_t stage, int k0) const {
    const int left = k - k0 - first_k;  // elements of this chunk and behind it
    // single elements pass through registers: one chunk at a time, or there are too few of them
#pragma unroll kRows == Rows::elements ? 1 : kTurns
    for (int i = 0; i < kTurns; ++i) {
      if (!in_tile(i)) continue;
      const std::uint32_t target = stage + to + static_cast<std::uint32_t>(i * kRowsAtOnce * T::kStep * 2);
      const int usable = (valid >> i & 1U) != 0 ? left : 0;
      const E* source = from + i * turn + k0;
      if constexpr (kRows == Rows::chunks) copy_async16(target, source, usable > 0 ? 16 : 0);
      else if constexpr (kRows == Rows::pairs) load_pairs(target, source, usable);
      else load_elements(target, source, usable);
    }
  }

  __device__ static void load_pairs(std::uint32_t target, const E* source, int usable) {
#pragma unroll
    for (int j = 0; j < 4; ++j) copy_async4(target + 4U * j, source + 2 * j, 2 * j < usable ? 4 : 0);
  }

  /// One by one through registers.
  __device__ static void load_elements(std::uint32_t target, const E* source, int usable) {
    const auto* raw = reinterpret_cast<const unsigned short*>(source);
    std::uint32_t words[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t low = 2 * j < usable ? __ldg(raw + 2 * j) : 0U;
      const std::uint32_t high = 2 * j + 1 < usable ? __ldg(raw + 2 * j + 1) : 0U;
      words[j] = low | (high << 16);
    }
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};\n" ::"r"(target), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                 "r"(words[3])
                 : "memory");
  }
};

/// A warp's operands of one substep (16 of K).
template <class T>
struct Fragments {
  std::uint32_t a[T::kRowTiles][4];
  std::uint32_t b[T::kColTiles / 2][4];

  /// `a_from`, `b_from`: this lane's addresses of substep 0; the substep's bits are above the swizzle's lowest.
  __device__ void load(std::uint32_t a_from, std::uint32_t b_from, int substep) {
    const auto flip = static_cast<std::uint32_t>(substep << 5);
#pragma unroll
    for (int i = 0; i < T::kRowTiles; ++i) load_matrices(a[i], (a_from ^ flip) + i * 16 * T::kStep * 2);
#pragma unroll
    for (int i = 0; i < T::kColTiles / 2; ++i) load_matrices(b[i], (b_from ^ flip) + i * 16 * T::kStep * 2);
  }
};

template <class T>
struct Accumulators {
  float c[T::kRowTiles][T::kColTiles][4];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < T::kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < T::kColTiles; ++j) c[i][j][0] = c[i][j][1] = c[i][j][2] = c[i][j][3] = 0;
    }
  }

  __device__ void add(const Fragments<T>& f) {
#pragma unroll
    for (int i = 0; i < T::kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < T::kColTiles; ++j) {
        const int column = (i & 1) != 0 ? T::kColTiles - 1 - j : j;  // back and forth: operands stay near
        multiply_add<typename T::E>(c[i][column], f.a[i], f.b[column / 2][2 * (column % 2)],
                                    f.b[column / 2][2 * (column % 2) + 1]);
      }
    }
  }

  /// f(row, column, value, value of the next column), both in the CTA's tile.
  template <class F>
  __device__ void for_each_pair(F f) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
    const int row = warp / T::kWarpsC * T::kWarpRows + lane / 4;
    const int col = warp % T::kWarpsC * T::kWarpCols + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < T::kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < T::kColTiles; ++j) {
        f(row + i * 16, col + j * 8, c[i][j][0], c[i][j][1]);
        f(row + i * 16 + 8, col + j * 8, c[i][j][2], c[i][j][3]);
      }
    }
  }
};

/// Sum over K steps [begin, end) of the tile. Copies run kStages - 1 steps ahead, fragments one substep ahead.
template <class T, Rows kRows>
__device__ void accumulate(const OperandLoader<T, T::kRows, kRows>& a, const OperandLoader<T, T::kCols, kRows>& b,
                           std::uint32_t shared, int begin, int end, Accumulators<T>& sums) {
  constexpr std::uint32_t kOperandB = T::kRows * T::kStep * 2;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int a_row = warp / T::kWarpsC * T::kWarpRows + lane % 16;
  const int b_row = warp % T::kWarpsC * T::kWarpCols + lane % 8 + lane / 16 * 8;
  const auto a_lane = static_cast<std::uint32_t>(a_row * T::kStep * 2 + ((lane / 16 ^ swizzle<T::kStep>(a_row)) << 4));
  const auto b_lane =
      kOperandB + static_cast<std::uint32_t>(b_row * T::kStep * 2 + ((lane / 8 % 2 ^ swizzle<T::kStep>(b_row)) << 4));
  const auto fetch = [&](int step, int slot) {
    if (step < end) {
      const std::uint32_t stage = shared + static_cast<std::uint32_t>(slot * T::kStageBytes);
      a.load(stage, step * T::kStep);
      b.load(stage + kOperandB, step * T::kStep);
    }
    commit_copies();
  };
#pragma unroll
  for (int s = 0; s < T::kStages - 1; ++s) fetch(begin + s, s);
  wait_copies<T::kStages - 2>();
  __syncthreads();
  Fragments<T> fragments[2];
  fragments[0].load(shared + a_lane, shared + b_lane, 0);
  int read = 0, write = T::kStages - 1;
  for (int step = begin; step < end; ++step) {
#pragma unroll
    for (int sub = 0; sub < T::kSubsteps; ++sub) {
      if (sub == T::kSubsteps - 1) {  // the next stage has arrived, and nobody reads this one any more
        wait_copies<T::kStages - 2>();
        __syncthreads();
        read = read + 1 < T::kStages ? read + 1 : 0;
      }
      const std::uint32_t stage = shared + static_cast<std::uint32_t>(read * T::kStageBytes);
      fragments[(sub + 1) % 2].load(stage + a_lane, stage + b_lane, (sub + 1) % T::kSubsteps);
      if (sub == 0) {
        fetch(step + T::kStages - 1, write);
        write = write + 1 < T::kStages ? write + 1 : 0;
      }
      sums.add(fragments[sub % 2]);
    }
  }
  wait_copies<0>();
  __syncthreads();
}

/// The staged tile [kTileRows, kTileCols + pad] to y, of which this much is left from here.
template <int kTileRows, int kTileCols, int kPad, int kThreads, class E>
__device__ void copy_out(const E* tile, E* y, std::int64_t width, int rows_left, int cols_left) {
  if (width % kVector == 0) {
    constexpr int kVectors = kTileCols / kVector;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kTileRows * kVectors; i += kThreads) {
      const int row = i / kVectors, col = i % kVectors * kVector;
      if (row < rows_left && col < cols_left) {
        *reinterpret_cast<uint4*>(y + row * width + col) =
            *reinterpret_cast<const uint4*>(tile + row * (kTileCols + kPad) + col);
      }
    }
    return;
  }
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows * kTileCols; i += kThreads) {
    const int row = i / kTileCols, col = i % kTileCols;
    if (row < rows_left && col < cols_left) y[row * width + col] = tile[row * (kTileCols + kPad) + col];
  }
}

template <class T>
__device__ void store_result(const Accumulators<T>& sums, const PortableArgs& g, typename T::E* staged, int row,
                             int col) {
  using E = typename T::E;
  E* y = static_cast<E*>(g.y) + std::int64_t{blockIdx.z} * g.rows * g.cols;
  if (g.swapped) {
    constexpr int kWidth = T::kRows + T::kPad;
    sums.for_each_pair([&](int r, int c, float v, float w) {
      staged[c * kWidth + r] = rounded<E>(v * g.scale);
      staged[(c + 1) * kWidth + r] = rounded<E>(w * g.scale);
    });
    __syncthreads();
    copy_out<T::kCols, T::kRows, T::kPad, T::kThreads>(staged, y + std::int64_t{col} * g.rows + row, g.rows,
                                                       g.cols - col, g.rows - row);
  } else {
    constexpr int kWidth = T::kCols + T::kPad;
    sums.for_each_pair([&](int r, int c, float v, float w) {
      *reinterpret_cast<std::uint32_t*>(staged + r * kWidth + c) = pack_two<E>(v * g.scale, w * g.scale);
    });
    __syncthreads();
    copy_out<T::kRows, T::kCols, T::kPad, T::kThreads>(staged, y + std::int64_t{row} * g.cols + col, g.cols,
                                                       g.rows - row, g.cols - col);
  }
}

/// fp32 sums of one split, unscaled; whole 32-byte sectors a warp in either orientation.
template <class T>
__device__ void store_partial(const Accumulators<T>& sums, const PortableArgs& g, int row, int col) {
  const std::int64_t entry = std::int64_t{blockIdx.y} * gridDim.z + blockIdx.z, width = g.partial_width;
  float* to = g.partial + entry * (g.swapped ? g.cols : g.rows) * width;
  sums.for_each_pair([&](int r, int c, float v, float w) {
    r += row;
    c += col;
    if (r >= g.rows || c >= g.cols) return;
    if (g.swapped) {
      to[c * width + r] = v;
      if (c + 1 < g.cols) to[(c + 1) * width + r] = w;
    } else {  // the width is a multiple of 4: the pair fits
      *reinterpret_cast<float2*>(to + r * width + c) = make_float2(v, w);
    }
  });
}

/// Grid: tiles, splits, batch. Tiles in super-rows of kSuper along the rows, so that CTAs that run together share both
/// operands in L2.
template <class T, Rows kRows>
__global__ void __launch_bounds__(T::kThreads, T::kCtas) gemm_portable(const __grid_constant__ PortableArgs g) {
  using E = typename T::E;
  extern __shared__ __align__(128) unsigned char stages[];
  constexpr int kSuper = 16 * 128 / T::kRows;
  const int tile = static_cast<int>(blockIdx.x), in_super = kSuper * g.tiles_c;
  const int first = tile / in_super * kSuper, high = min(kSuper, g.tiles_r - first);
  const int row = (first + tile % in_super % high) * T::kRows, col = tile % in_super / high * T::kCols;
  const std::int64_t entry = blockIdx.z;
  const OperandLoader<T, T::kRows, kRows> a(static_cast<const E*>(g.a) + entry * g.rows * g.k, row, g.rows, g.k);
  const OperandLoader<T, T::kCols, kRows> b(static_cast<const E*>(g.b) + entry * g.cols * g.k, col, g.cols, g.k);
  const std::int64_t steps = (g.k + T::kStep - 1) / T::kStep, splits = gridDim.y;
  const int begin = static_cast<int>(steps * blockIdx.y / splits);
  const int end = static_cast<int>(steps * (blockIdx.y + 1) / splits);
  Accumulators<T> sums;
  sums.clear();
  accumulate<T, kRows>(a, b, shared_address(stages), begin, end, sums);
  if (g.partial != nullptr) store_partial(sums, g, row, col);
  else store_result(sums, g, reinterpret_cast<E*>(stages), row, col);
}

constexpr int kReduceThreads = 256;

/// y = scale x the sum over the splits, always in the same order; four columns a thread.
template <class E>
__global__ void __launch_bounds__(kReduceThreads)
    gemm_portable_reduce(const float* partial, E* y, std::int64_t rows, int width, int splits, float scale) {
  const std::int64_t groups = (width + 3) / 4, all = rows * groups;
  const std::int64_t i = std::int64_t{blockIdx.x} * kReduceThreads + threadIdx.x;
  if (i >= all) return;
  const auto* from = reinterpret_cast<const float4*>(partial) + i;
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 4
  for (int s = 0; s < splits; ++s) {
    const float4 v = __ldcs(from + s * all);
    sum.x += v.x;
    sum.y += v.y;
    sum.z += v.z;
    sum.w += v.w;
  }
  const std::int64_t row = i / groups;
  const int col = static_cast<int>(i - row * groups) * 4;
  E* to = y + row * width + col;
  if (width % 4 == 0) {
    *reinterpret_cast<uint2*>(to) =
        make_uint2(pack_two<E>(sum.x * scale, sum.y * scale), pack_two<E>(sum.z * scale, sum.w * scale));
    return;
  }
  const float values[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (col + j < width) to[j] = rounded<E>(values[j] * scale);
  }
}

}  // namespace plumbline::device
