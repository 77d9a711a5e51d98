// Kernels with an access pattern of their own: transpose_copy, rope, sum_all.
#include <algorithm>

#include "kernels/cuda_check.hpp"
#include "kernels/flat.cuh"
#include "kernels/launch.hpp"
#include "kernels/vector.cuh"

namespace plumbline {
namespace device {

// --- transpose -------------------------------------------------------------------------------------------------------

constexpr int kTile = 64, kTransposeThreads = 256, kTileVecs = kTile / kVector;

/// Element (row, col) of a tile is half of word (row, col / 2); the 16-byte groups of a row are permuted by row / 8, so
/// that 16-byte rows go in and 2-element columns come out without bank conflicts.
__device__ inline int tile_word(int row, int word) { return row * (kTile / 2) + (word ^ ((row / kVector) * 4)); }

/// y[cols, rows] = x[rows, cols]^T by tiles of 64 x 64 through shared memory, 16 bytes a thread on both sides where
/// rows and columns are whole vectors. Naive (one element a thread, strided stores) reaches 61 % of a copy, this about
/// 95 %.
template <bool kVectorIn, bool kVectorOut>
__global__ void __launch_bounds__(kTransposeThreads) transpose(const bf16* x, bf16* y, int rows, int cols) {
  __shared__ std::uint32_t tile[kTile * kTile / 2];
  const int row0 = static_cast<int>(blockIdx.y) * kTile, col0 = static_cast<int>(blockIdx.x) * kTile;
  const int t = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int pass = 0; pass < kTile * kTileVecs / kTransposeThreads; ++pass) {
    const int r = (pass * kTransposeThreads + t) / kTileVecs, v = t % kTileVecs;
    const int row = row0 + r, col = col0 + v * kVector;
    const std::int64_t at = std::int64_t{row} * cols + col;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (row < rows && col < cols) {
      if constexpr (kVectorIn) {
        value = load_once(x + at);
      } else {
        float e[kVector] = {};
#pragma unroll
        for (int j = 0; j < kVector; ++j) {
          if (col + j < cols) e[j] = __bfloat162float(x[at + j]);
        }
        value = pack(e);
      }
    }
    *reinterpret_cast<uint4*>(&tile[tile_word(r, v * 4)]) = value;
  }
  __syncthreads();
  // A thread turns 8 rows of 2 columns into 8 elements of 2 result rows.
  const int group = t % kTileVecs, word = t / kTileVecs;
  std::uint32_t even[4], odd[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t a = tile[tile_word(group * kVector + 2 * i, word)];
    const std::uint32_t b = tile[tile_word(group * kVector + 2 * i + 1, word)];
    even[i] = __byte_perm(a, b, 0x5410);
    odd[i] = __byte_perm(a, b, 0x7632);
  }
  const int out_col = row0 + group * kVector;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t(&w)[4] = half == 0 ? even : odd;
    const int out_row = col0 + 2 * word + half;
    if (out_row >= cols || out_col >= rows) continue;
    bf16* to = y + std::int64_t{out_row} * rows + out_col;
    if constexpr (kVectorOut) {
      store_once(to, make_uint4(w[0], w[1], w[2], w[3]));
    } else {
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        const auto bits = static_cast<unsigned short>(w[j / 2] >> (16 * (j % 2)));
        if (out_col + j < rows) to[j] = __ushort_as_bfloat16(bits);
      }
    }
  }
}

// --- rope ------------------------------------------------------------------------------------------------------------

constexpr int kRopeThreads = 256, kMaxHalf = 256;

/// A CTA a token: sine and cosine once a frequency (full precision: fast maths is wrong at large positions), then every
/// head. `kVectors`: halves of whole vectors.
template <bool kVectors>
__global__ void __launch_bounds__(kRopeThreads)
    rope(bf16* x, const std::int32_t* positions, const float* inverse_frequency, int heads, int half) {
  __shared__ float cosine[kMaxHalf], sine[kMaxHalf];
  const std::int64_t token = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x); i < half; i += kRopeThreads) {
    sincosf(static_cast<float>(positions[token]) * inverse_frequency[i], &sine[i], &cosine[i]);
  }
  __syncthreads();
  constexpr int kStep = kVectors ? kVector : 1;
  bf16* row = x + token * heads * half * 2;
  const int per_head = half / kStep;
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < heads * per_head; i += kRopeThreads) {
    const int head = i / per_head, at = (i - head * per_head) * kStep;
    bf16* low = row + head * half * 2 + at;
    bf16* high = low + half;
    if constexpr (kVectors) {
      float a[kVector], b[kVector];
      unpack(load_once(low), a);
      unpack(load_once(high), b);
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        const float rotated = a[j] * cosine[at + j] - b[j] * sine[at + j];
        b[j] = b[j] * cosine[at + j] + a[j] * sine[at + j];
        a[j] = rotated;
      }
      store_once(low, pack(a));
      store_once(high, pack(b));
    } else {
      const float a = __bfloat162float(*low), b = __bfloat162float(*high);
      *low = __float2bfloat16_rn(a * cosine[at] - b * sine[at]);
      *high = __float2bfloat16_rn(b * cosine[at] + a * sine[at]);
    }
  }
}

// --- sum -------------------------------------------------------------------------------------------------------------

constexpr int kSumThreads = 512, kSumVecs = 4, kSumCtas = 4 * 132;

struct SumScratch {
  float partial[kSumCtas];
  unsigned arrived;
};

/// Each CTA leaves one partial sum; the last to arrive adds them in order and clears the counter for the next launch.
__global__ void __launch_bounds__(kSumThreads) sum_all(const bf16* x, std::int64_t n, float* y, SumScratch* scratch) {
  const std::int64_t vectors = n / kVector, stride = std::int64_t{gridDim.x} * kSumThreads;
  const std::int64_t first = std::int64_t{blockIdx.x} * kSumThreads + threadIdx.x;
  float sum = 0;
  for (std::int64_t v = first; v < vectors; v += stride * kSumVecs) {
    uint4 a[kSumVecs];
#pragma unroll
    for (int i = 0; i < kSumVecs; ++i) {
      a[i] = v + i * stride < vectors ? load_once(x + (v + i * stride) * kVector) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < kSumVecs; ++i) {
      float e[kVector];
      unpack(a[i], e);
      sum += ((e[0] + e[1]) + (e[2] + e[3])) + ((e[4] + e[5]) + (e[6] + e[7]));
    }
  }
  const std::int64_t tail = vectors * kVector + first;
  if (tail < n) sum += __bfloat162float(x[tail]);
  sum = reduce<kSumThreads>(sum, Add{});
  __shared__ bool last;
  if (threadIdx.x == 0) {
    scratch->partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(&scratch->arrived, 1U) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  float total = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kSumThreads) total += __ldcg(&scratch->partial[i]);
  total = reduce<kSumThreads>(total, Add{});
  if (threadIdx.x == 0) {
    *y = total;
    scratch->arrived = 0;
  }
}

}  // namespace device

KernelPlan transpose_plan(const Rowwise& s) {
  KernelPlan p;
  p.ctas = ((s.rows + device::kTile - 1) / device::kTile) * ((s.cols + device::kTile - 1) / device::kTile);
  p.threads = device::kTransposeThreads;
  return p;
}

void launch_transpose(const Rowwise& s, const void* from, void* to, StreamHandle handle) {
  auto* stream = static_cast<cudaStream_t>(handle);
  const auto* x = static_cast<const device::bf16*>(from);
  auto* y = static_cast<device::bf16*>(to);
  const int rows = static_cast<int>(s.rows), cols = static_cast<int>(s.cols);
  const auto tiles = [](int n) { return static_cast<unsigned>((n + device::kTile - 1) / device::kTile); };
  if (tiles(rows) > 65535) throw NotModelled("transpose_copy: our kernel takes up to 4 Mi rows");
  const dim3 grid(tiles(cols), tiles(rows));
  const bool in = cols % device::kVector == 0, out = rows % device::kVector == 0;
  const auto kernel = in ? (out ? device::transpose<true, true> : device::transpose<true, false>)
                         : (out ? device::transpose<false, true> : device::transpose<false, false>);
  kernel<<<grid, device::kTransposeThreads, 0, stream>>>(x, y, rows, cols);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void launch_rope(const Rope& s, void* x, const std::int32_t* positions, const float* inverse_frequency,
                 StreamHandle handle) {
  if (s.dtype != DType::bf16) throw NotModelled("rope: our kernel is for bf16");
  const int half = static_cast<int>(s.head_dim / 2);
  if (s.head_dim % 2 != 0 || half < 1 || half > device::kMaxHalf) {
    throw NotModelled("rope: our kernel takes an even head width up to 512");
  }
  const auto kernel = half % device::kVector == 0 ? device::rope<true> : device::rope<false>;
  kernel<<<static_cast<unsigned>(s.tokens), device::kRopeThreads, 0, static_cast<cudaStream_t>(handle)>>>(
      static_cast<device::bf16*>(x), positions, inverse_frequency, static_cast<int>(s.heads), half);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

std::size_t sum_all_scratch_bytes() { return sizeof(device::SumScratch); }

void launch_sum_all(const Scan& s, const void* x, float* y, void* scratch, StreamHandle handle) {
  if (s.kind != ScanKind::sum_all || s.dtype != DType::bf16) throw NotModelled("sum_all: our kernel is for bf16");
  const std::int64_t per_cta = std::int64_t{device::kSumThreads} * device::kVector;
  const std::int64_t ctas = std::min<std::int64_t>((s.n + per_cta - 1) / per_cta, device::kSumCtas);
  device::sum_all<<<static_cast<unsigned>(ctas), device::kSumThreads, 0, static_cast<cudaStream_t>(handle)>>>(
      static_cast<const device::bf16*>(x), s.n, y, static_cast<device::SumScratch*>(scratch));
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline
