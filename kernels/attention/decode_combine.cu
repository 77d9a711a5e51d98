// The second launch of a split decode: o = sum_i w_i o_i over the splits, w_i = 2^(lse_i - max) / sum_j 2^(lse_j -
// max).
//
// A warp reads one partial row (D fp32) at a time. A row of o belongs to one warp when the splits are few, and to 4 or
// 16 warps, each with every 4th or 16th split, when they are many. Partials come from L2, where the first launch left
// them.
// Variants and their figures: docs/lab/decode.md.
#include <cuda_runtime.h>

#include <string>

#include "kernels/attention/decode.cuh"
#include "kernels/attention/decode_ptx.cuh"
#include "kernels/common/cuda_check.hpp"

namespace plumbline::decode {
namespace device {

template <int kWarpsPerRow>
constexpr int kThreads = kWarpsPerRow > 4 ? 32 * kWarpsPerRow : 128;

__device__ inline float warp_max(float v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v = fmaxf(v, __shfl_xor_sync(~0U, v, step));
  return v;
}
__device__ inline float warp_sum(float v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0U, v, step);
  return v;
}

/// A lane's share of a partial row: kHeadDim / 32 neighbouring values.
template <int kHeadDim>
struct Share {
  static constexpr int kValues = kHeadDim / 32;
  float v[kValues] = {};

  __device__ void load(const float* row, int lane) {
#pragma unroll
    for (int i = 0; i < kValues; i += 2) {
      const float2 x = __ldcg(reinterpret_cast<const float2*>(row + lane * kValues + i));
      v[i] = x.x;
      v[i + 1] = x.y;
    }
  }
  __device__ void add(const Share& other, float weight) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) v[i] += weight * other.v[i];
  }
};

/// What the log-sum-exps of a row's splits, 32 at a time in the lanes of a warp, say about their weights.
struct Weights {
  const float* lse;
  int splits, lane;
  float mine, largest, total;

  __device__ Weights(const float* lse_, int splits_, int lane_) : lse(lse_), splits(splits_), lane(lane_) {
    mine = lane < splits ? __ldcg(lse + lane) : -INFINITY;
  }
  __device__ void settle() {
    largest = mine;
    for (int i = lane + 32; i < splits; i += 32) largest = fmaxf(largest, __ldcg(lse + i));
    largest = warp_max(largest);  // finite: a row has a key
    total = exp2_fast(mine - largest);
    for (int i = lane + 32; i < splits; i += 32) total += exp2_fast(__ldcg(lse + i) - largest);
    total = warp_sum(total);
  }
  __device__ float of(int split) const {  // the same split in all lanes
    const float x = split < 32 ? __shfl_sync(~0U, mine, split) : __ldcg(lse + split);
    return exp2_fast(x - largest);
  }
};

/// Everything that does not depend on another load is asked for at once: the time of this kernel is round trips to L2.
template <int kHeadDim, int kWarpsPerRow>
__device__ Share<kHeadDim> weighted_sum(const float* partial, const float* log_sum, int splits, int first, int lane) {
  constexpr int kBatch = 4;
  Weights weights(log_sum, splits, lane);
  Share<kHeadDim> sum, batch[kBatch];
  for (int from = first; from < splits; from += kBatch * kWarpsPerRow) {
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int split = from + j * kWarpsPerRow;
      if (split < splits) batch[j].load(partial + std::int64_t{split} * kHeadDim, lane);
    }
    if (from == first) weights.settle();
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int split = from + j * kWarpsPerRow;
      if (split < splits) sum.add(batch[j], weights.of(split));
    }
  }
  if (first >= splits) return sum;
  const float scale = 1.0F / weights.total;
#pragma unroll
  for (float& x : sum.v) x *= scale;
  return sum;
}

template <class E, int kHeadDim, int kWarpsPerRow>
__global__ void __launch_bounds__(kThreads<kWarpsPerRow>)
    combine(const float* output, const float* log_sum, E* o, std::int64_t rows, int splits) {
  constexpr int kValues = Share<kHeadDim>::kValues, kWarps = kThreads<kWarpsPerRow> / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = std::int64_t{blockIdx.x} * (kWarps / kWarpsPerRow) + warp / kWarpsPerRow;
  const int first = warp % kWarpsPerRow;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  Share<kHeadDim> sum;
  if (row < rows) {
    sum = weighted_sum<kHeadDim, kWarpsPerRow>(output + row * splits * kHeadDim, log_sum + row * splits, splits, first,
                                               lane);
  }
  if constexpr (kWarpsPerRow > 1) {
    __shared__ float shares[kWarps][kHeadDim];
#pragma unroll
    for (int i = 0; i < kValues; ++i) shares[warp][lane * kValues + i] = sum.v[i];
    __syncthreads();
    if (first != 0) return;
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      for (int w = 1; w < kWarpsPerRow; ++w) sum.v[i] += shares[warp + w][lane * kValues + i];
    }
  }
  if (row >= rows) return;
  auto* to = reinterpret_cast<std::uint32_t*>(o + row * kHeadDim + lane * kValues);
#pragma unroll
  for (int i = 0; i < kValues / 2; ++i) to[i] = pack_two<E>(sum.v[2 * i], sum.v[2 * i + 1]);
}

}  // namespace device

namespace {

template <class E, int kHeadDim, int kWarpsPerRow>
void launch_for(std::int64_t rows, int splits, const Partials& from, void* o, cudaStream_t stream, bool chained) {
  constexpr std::int64_t kRowsPerCta = device::kThreads<kWarpsPerRow> / 32 / kWarpsPerRow;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>((rows + kRowsPerCta - 1) / kRowsPerCta));
  config.blockDim = dim3(device::kThreads<kWarpsPerRow>);
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = chained ? 1 : 0;
  PLUMBLINE_CUDA_CHECK(cudaLaunchKernelEx(&config, device::combine<E, kHeadDim, kWarpsPerRow>,
                                          static_cast<const float*>(from.output),
                                          static_cast<const float*>(from.log_sum), static_cast<E*>(o), rows, splits));
}

}  // namespace

void launch_combine(const AttentionDecode& shape, const AttentionPlan& plan, void* workspace, void* o,
                    cudaStream_t stream, bool chained) {
  const std::int64_t rows = shape.batch * shape.q_heads;
  const int splits = static_cast<int>(plan.splits);
  const Partials from = partials(workspace, shape, plan);
  const auto launch_of = [&]<class E, int kHeadDim>() {
    if (splits <= 4) return launch_for<E, kHeadDim, 1>(rows, splits, from, o, stream, chained);
    if (splits <= 32) return launch_for<E, kHeadDim, 4>(rows, splits, from, o, stream, chained);
    launch_for<E, kHeadDim, 16>(rows, splits, from, o, stream, chained);
  };
  const auto launch = [&]<int kHeadDim>() {
    if (shape.dtype == DType::fp16) return launch_of.template operator()<__half, kHeadDim>();
    launch_of.template operator()<__nv_bfloat16, kHeadDim>();
  };
  if (shape.qk_dim == 64) return launch.template operator()<64>();
  if (shape.qk_dim == 128) return launch.template operator()<128>();
  if (shape.qk_dim == 256) return launch.template operator()<256>();
  throw NotModelled("attention_decode: no combine kernel for head width " + std::to_string(shape.qk_dim));
}

}  // namespace plumbline::decode
