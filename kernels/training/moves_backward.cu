// Gradients of rotary embedding and of the embedding table.
#include <algorithm>
#include <string>

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/measure.cuh"
#include "kernels/rows/rope.cuh"
#include "kernels/training/training.hpp"

namespace plumbline {
namespace device {

/// Heads of Q, K and V, each an array of its own, and where they go side by side.
struct RopeBackward {
  const bf16 *dq, *dk, *dv;
  bf16* dqkv;
  int q_heads, kv_heads, width;

  __device__ const bf16* from(std::uint32_t token, int head) const {
    if (head < q_heads) return dq + (std::int64_t{token} * q_heads + head) * width;
    head -= q_heads;
    const bf16* array = head < kv_heads ? dk : dv;
    if (head >= kv_heads) head -= kv_heads;
    return array + (std::int64_t{token} * kv_heads + head) * width;
  }
};

/// As `rope`, with the angle's sign turned: each thread takes 8 pairs; sines and cosines once for each token and
/// frequency of a CTA.
__global__ void __launch_bounds__(kRopeThreads)
    rope_backward(const RopeBackward a, const std::int32_t* positions, const float* inverse_frequency, RopeShape s) {
  __shared__ float2 turns[kTurns];
  const std::uint32_t first = blockIdx.x * kRopeThreads, item = first + threadIdx.x;
  const std::uint32_t token = s.per_token.quotient(item), head_item = item - token * s.per_token.by;
  const std::uint32_t head = s.per_head.quotient(head_item), at = (head_item - head * s.per_head.by) * kVector;
  const bool exists = item < s.items;
  uint4 p{}, q{};
  if (exists) {
    const bf16* low = a.from(token, static_cast<int>(head)) + at;
    p = load_vector(low);
    q = load_vector(low + s.half);
  }
  const std::uint32_t first_token = s.per_token.quotient(first);
  const auto last = static_cast<std::uint32_t>(min(s.items, std::int64_t{first} + kRopeThreads) - 1);
  const int count = static_cast<int>(s.per_token.quotient(last) - first_token + 1) * s.half;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kRopeThreads) {
    const int t = i / s.half, frequency = i - t * s.half, vectors = s.half / kVector;
    float sine, cosine;
    turn_of(static_cast<float>(positions[first_token + t]) * inverse_frequency[frequency], &sine, &cosine);
    turns[t * s.half + frequency % kVector * vectors + frequency / kVector] = make_float2(cosine, sine);
  }
  __syncthreads();
  if (!exists) return;
  bf16* out = a.dqkv + (std::int64_t{token} * s.heads + head) * a.width + at;
  if (static_cast<int>(head) < a.q_heads + a.kv_heads) {
    const float2* turn = turns + (token - first_token) * s.half + at / kVector;
    const int step = s.half / kVector;
    float low[kVector], high[kVector];
    unpack(p, low);
    unpack(q, high);
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      const float2 by = turn[j * step];
      const float back = low[j] * by.x + high[j] * by.y;
      high[j] = high[j] * by.x - low[j] * by.y;
      low[j] = back;
    }
    p = pack(low);
    q = pack(high);
  }
  store_vector(out, p);
  store_vector(out + s.half, q);
}

constexpr int kScatterThreads = 256;

__device__ inline void add_four(float* to, float a, float b, float c, float d) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

/// Vector v of dy is added to vector v mod row_vectors of row ids[v / row_vectors].
__global__ void __launch_bounds__(kScatterThreads)
    scatter_rows(const bf16* dy, const std::int32_t* ids, float* table, std::uint32_t vectors, Divider row_vectors) {
  const std::uint32_t v = blockIdx.x * kScatterThreads + threadIdx.x;
  if (v >= vectors) return;
  const std::uint32_t row = row_vectors.quotient(v), within = v - row * row_vectors.by;
  const uint4 raw = load_vector(dy + std::int64_t{v} * kVector);
  float d[kVector];
  unpack(raw, d);
  float* to = table + (std::int64_t{ids[row]} * row_vectors.by + within) * kVector;
  add_four(to, d[0], d[1], d[2], d[3]);
  add_four(to + 4, d[4], d[5], d[6], d[7]);
}

__global__ void __launch_bounds__(kScatterThreads)
    scatter_elements(const bf16* dy, const std::int32_t* ids, float* table, std::int64_t n, std::int64_t width) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kScatterThreads + threadIdx.x;
  if (i >= n) return;
  const std::int64_t row = i / width;
  atomicAdd(table + std::int64_t{ids[row]} * width + (i - row * width), __bfloat162float(dy[i]));
}

/// A CTA takes `rows_each` rows of 32 vectors of columns: a warp a row at a time, a lane its 8 columns.
constexpr int kSumWarps = 8;
__global__ void __launch_bounds__(kSumWarps* kWarp)
    column_sums(const bf16* dy, float* sums, std::int64_t rows, std::int64_t cols, std::int64_t rows_each) {
  __shared__ float held[kSumWarps][kVector][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t col = (std::int64_t{blockIdx.x} * kWarp + lane) * kVector;
  const std::int64_t first = blockIdx.y * rows_each, last = min(rows, first + rows_each);
  float mine[kVector] = {};
  if (cols % kVector == 0 && col < cols) {
    constexpr int kAtOnce = 4;
    std::int64_t row = first + warp;
    for (; row + (kAtOnce - 1) * kSumWarps < last; row += kAtOnce * kSumWarps) {
      uint4 raw[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) raw[i] = load_vector(dy + (row + i * kSumWarps) * cols + col);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        float d[kVector];
        unpack(raw[i], d);
#pragma unroll
        for (int j = 0; j < kVector; ++j) mine[j] += d[j];
      }
    }
    for (; row < last; row += kSumWarps) {
      float d[kVector];
      unpack(load_vector(dy + row * cols + col), d);
#pragma unroll
      for (int j = 0; j < kVector; ++j) mine[j] += d[j];
    }
  } else {
    for (std::int64_t row = first + warp; row < last; row += kSumWarps) {
      for (int j = 0; j < kVector; ++j) {
        if (col + j < cols) mine[j] += __bfloat162float(dy[row * cols + col + j]);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kVector; ++j) held[warp][j][lane] = mine[j];
  __syncthreads();
  // thread t: column t of the CTA's 256
  const int column = static_cast<int>(threadIdx.x);
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kSumWarps; ++w) sum += held[w][column % kVector][column / kVector];
  const std::int64_t to = std::int64_t{blockIdx.x} * kWarp * kVector + column;
  if (to < cols) atomicAdd(sums + to, sum);
}

}  // namespace device

namespace {

using device::bf16;
using device::kVector;

unsigned scatter_ctas(std::int64_t items) {
  const std::int64_t ctas = (items + device::kScatterThreads - 1) / device::kScatterThreads;
  if (ctas > 0x7fffff00) throw NotModelled("embedding backward: our kernel takes up to 2^31 CTAs");
  return static_cast<unsigned>(ctas);
}

}  // namespace

void launch_rope_backward(const Rope& s, const RopeBackwardBuffers& b, StreamHandle handle) {
  if (s.dtype != DType::bf16) throw NotModelled("rope backward: our kernel is for bf16");
  const device::RopeShape shape = rope_shape(s);
  const auto q_heads = static_cast<int>(b.q_heads), kv_heads = (shape.heads - q_heads) / 2;
  if (shape.half % kVector != 0) throw NotModelled("rope backward: our kernel takes a head width of whole 16 elements");
  if (q_heads < 1 || kv_heads < 1 || q_heads + 2 * kv_heads != shape.heads) {
    throw NotModelled("rope backward: our kernel takes Hq + 2 Hkv heads a token");
  }
  const device::RopeBackward a{static_cast<const bf16*>(b.dq),
                               static_cast<const bf16*>(b.dk),
                               static_cast<const bf16*>(b.dv),
                               static_cast<bf16*>(b.dqkv),
                               q_heads,
                               kv_heads,
                               2 * shape.half};
  device::rope_backward<<<static_cast<unsigned>(rope_plan(s).ctas), device::kRopeThreads, 0,
                          static_cast<cudaStream_t>(handle)>>>(a, b.positions, b.inverse_frequency, shape);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void launch_embedding_backward(const Rows& s, const void* dy, const std::int32_t* ids, float* table,
                               StreamHandle handle) {
  auto* stream = static_cast<cudaStream_t>(handle);
  const std::int64_t n = s.rows * s.cols;
  const auto* from = static_cast<const bf16*>(dy);
  if (s.cols % kVector == 0) {
    if (n / kVector > 0x7fffff00) throw NotModelled("embedding backward: our kernel takes up to 2^31 vectors");
    device::scatter_rows<<<scatter_ctas(n / kVector), device::kScatterThreads, 0, stream>>>(
        from, ids, table, static_cast<std::uint32_t>(n / kVector), device::Divider(s.cols / kVector));
  } else {
    device::scatter_elements<<<scatter_ctas(n), device::kScatterThreads, 0, stream>>>(from, ids, table, n, s.cols);
  }
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void launch_column_sums(const Rows& s, const void* dy, float* sums, StreamHandle handle) {
  constexpr std::int64_t kColumns = device::kWarp * kVector, kFewestRows = 64, kCtasAnSm = 8;
  const std::int64_t across = (s.cols + kColumns - 1) / kColumns;
  const std::int64_t parts = std::max<std::int64_t>(1, kCtasAnSm * sm_count() / across);
  const std::int64_t each = std::max(kFewestRows, (s.rows + parts - 1) / parts);
  const dim3 grid(static_cast<unsigned>(across), static_cast<unsigned>((s.rows + each - 1) / each));
  device::column_sums<<<grid, device::kSumWarps * device::kWarp, 0, static_cast<cudaStream_t>(handle)>>>(
      static_cast<const bf16*>(dy), sums, s.rows, s.cols, each);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline
