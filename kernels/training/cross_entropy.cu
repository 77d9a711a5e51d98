// Cross entropy over a vocabulary: forward one pass that only reads, backward one that reads and writes. Rows need not
// begin at whole vectors: elements before the first and behind the last whole one are taken one by one.
#include <algorithm>
#include <cmath>

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/vector.cuh"
#include "kernels/training/training.hpp"

namespace plumbline {
namespace device {

constexpr float kLog2E = 1.4426950408889634F, kLn2 = 0.6931471805599453F;

/// A row's elements that lie in whole aligned vectors: `vectors` of them from element `head` on.
struct RowSpan {
  int head, vectors;
  __device__ RowSpan(std::int64_t begin, int cols) {
    head = min(cols, static_cast<int>((kVector - begin % kVector) % kVector));
    vectors = (cols - head) / kVector;
  }
  __device__ int tail() const { return head + vectors * kVector; }
};

/// A running sum of 2^(x - most).
struct Softened {
  float most = -INFINITY, sum = 0;
  __device__ void take(float x) {
    if (x > most) {
      sum *= exp2_approx(most - x);
      most = x;
    }
    if (x > -INFINITY) sum += exp2_approx(x - most);
  }
  __device__ void merge(float other_most, float other_sum) {
    const float larger = fmaxf(most, other_most);
    if (larger == -INFINITY) return;
    sum = sum * exp2_approx(most - larger) + other_sum * exp2_approx(other_most - larger);
    most = larger;
  }
};

constexpr int kLossThreads = 512, kLossAtOnce = 4;

/// A CTA a row, online maximum: a thread has four vectors on their way and rescales once for the 32 elements.
__global__ void __launch_bounds__(kLossThreads)
    cross_entropy(const bf16* logits, const std::int32_t* targets, float* loss, float* lse, int cols) {
  const std::int64_t row = blockIdx.x, begin = row * cols;
  const bf16* x = logits + begin;
  const RowSpan span(begin, cols);
  const int me = static_cast<int>(threadIdx.x);
  Softened mine;
  if (me < span.head) mine.take(__bfloat162float(x[me]) * kLog2E);
  for (int i = span.tail() + me; i < cols; i += kLossThreads) mine.take(__bfloat162float(x[i]) * kLog2E);
  for (int v = me; v < span.vectors; v += kLossAtOnce * kLossThreads) {
    uint4 raw[kLossAtOnce];
#pragma unroll
    for (int i = 0; i < kLossAtOnce; ++i) {
      const int at = v + i * kLossThreads;
      // bf16's -infinity, which adds nothing
      raw[i] = at < span.vectors ? load_vector(x + span.head + at * kVector)
                                 : make_uint4(0xff80ff80U, 0xff80ff80U, 0xff80ff80U, 0xff80ff80U);
    }
    float largest = -INFINITY;
#pragma unroll
    for (const uint4& each : raw) {
      float f[kVector];
      unpack(each, f);
#pragma unroll
      for (float e : f) largest = fmaxf(largest, e);
    }
    largest *= kLog2E;
    if (largest == -INFINITY) continue;
    if (largest > mine.most) {
      mine.sum *= exp2_approx(mine.most - largest);
      mine.most = largest;
    }
#pragma unroll
    for (const uint4& each : raw) {
      float f[kVector];
      unpack(each, f);
#pragma unroll
      for (float e : f) mine.sum += exp2_approx(fmaf(e, kLog2E, -mine.most));
    }
  }
  __shared__ float mosts[kLossThreads / kWarp], sums[kLossThreads / kWarp];
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const float most = __shfl_xor_sync(~0U, mine.most, step), sum = __shfl_xor_sync(~0U, mine.sum, step);
    mine.merge(most, sum);
  }
  if (me % kWarp == 0) {
    mosts[me / kWarp] = mine.most;
    sums[me / kWarp] = mine.sum;
  }
  __syncthreads();
  if (me != 0) return;
  for (int w = 1; w < kLossThreads / kWarp; ++w) mine.merge(mosts[w], sums[w]);
  const float whole = (mine.most + log2f(mine.sum)) * kLn2;
  const std::int32_t target = targets[row];
  lse[row] = whole;
  loss[row] = target < 0 ? 0.0F : whole - __bfloat162float(x[target]);
}

constexpr int kSlopeThreads = 256, kSlopeVecs = 2;

__device__ inline float slope_of(float x, float log2_sum, float scale, bool target) {
  const float p = exp2_approx(fmaf(x, kLog2E, -log2_sum));
  return scale * (target ? p - 1.0F : p);
}

/// CTA (part of a row, row): 512 vectors of it.
__global__ void __launch_bounds__(kSlopeThreads)
    cross_entropy_backward(const bf16* logits, const std::int32_t* targets, const float* lse, float scale,
                           bf16* dlogits, int cols) {
  const std::int64_t row = blockIdx.y, begin = row * cols;
  const bf16* x = logits + begin;
  bf16* out = dlogits + begin;
  const RowSpan span(begin, cols);
  const int first = static_cast<int>(blockIdx.x) * kSlopeThreads * kSlopeVecs + static_cast<int>(threadIdx.x);
  uint4 raw[kSlopeVecs];
#pragma unroll
  for (int i = 0; i < kSlopeVecs; ++i) {
    const int v = first + i * kSlopeThreads;
    if (v < span.vectors) raw[i] = load_vector(x + span.head + v * kVector);
  }
  const int target = targets[row];
  const float log2_sum = lse[row] * kLog2E, by = target < 0 ? 0.0F : scale;
#pragma unroll
  for (int i = 0; i < kSlopeVecs; ++i) {
    const int v = first + i * kSlopeThreads, at = span.head + v * kVector;
    if (v >= span.vectors) continue;
    float f[kVector];
    unpack(raw[i], f);
#pragma unroll
    for (int j = 0; j < kVector; ++j) f[j] = slope_of(f[j], log2_sum, by, at + j == target);
    store_vector(out + at, pack(f));
  }
  if (blockIdx.x > 0) return;
  const auto single = [&](int at) {
    out[at] = __float2bfloat16_rn(slope_of(__bfloat162float(x[at]), log2_sum, by, at == target));
  };
  if (first < span.head) single(first);
  if (span.tail() + first < cols) single(span.tail() + first);
}

}  // namespace device

namespace {

void check_loss(const Rows& s) {
  if (s.rows < 1 || s.cols < 1 || s.rows > 65535 * std::int64_t{1024} || s.cols > (1 << 30)) {
    throw BadInput("cross entropy: expected 1 to 2^26 rows of 1 to 2^30 columns");
  }
}

}  // namespace

void launch_cross_entropy(const Rows& s, const void* logits, const std::int32_t* targets, float* loss, float* lse,
                          StreamHandle stream) {
  check_loss(s);
  device::cross_entropy<<<static_cast<unsigned>(s.rows), device::kLossThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const device::bf16*>(logits), targets, loss, lse, static_cast<int>(s.cols));
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

void launch_cross_entropy_backward(const Rows& s, const void* logits, const std::int32_t* targets, const float* lse,
                                   float scale, void* dlogits, StreamHandle stream) {
  check_loss(s);
  constexpr std::int64_t kCta = device::kSlopeThreads * device::kSlopeVecs * device::kVector, kMostRows = 65535;
  const auto across = static_cast<unsigned>((s.cols + kCta - 1) / kCta);
  for (std::int64_t first = 0; first < s.rows; first += kMostRows) {
    const auto rows = static_cast<unsigned>(std::min(kMostRows, s.rows - first));
    device::cross_entropy_backward<<<dim3(across, rows), device::kSlopeThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const device::bf16*>(logits) + first * s.cols, targets + first, lse + first, scale,
        static_cast<device::bf16*>(dlogits) + first * s.cols, static_cast<int>(s.cols));
  }
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline
