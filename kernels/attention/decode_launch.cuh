// One compiled variant of split-KV decode: tensor maps of the caches, the task, the launch.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/attention/attention.hpp"
#include "kernels/attention/decode.cuh"
#include "kernels/attention/decode_kernel.cuh"
#include "kernels/common/cuda_check.hpp"
#include "kernels/common/measure.cuh"
#include "kernels/common/tensor_map.cuh"

namespace plumbline::decode {

/// A cache as [pages, page, Hkv, D] (contiguous: a page is a sequence), read in boxes of 64 columns x 1 head x
/// `box_tokens`. How many pages there are is the page table's business: the map allows any number.
inline CUtensorMap cache_map(const void* cache, const AttentionDecode& s, int box_tokens) {
  const std::int64_t page = s.page > 0 ? s.page : s.context;
  const auto d = static_cast<cuuint64_t>(s.qk_dim), heads = static_cast<cuuint64_t>(s.kv_heads);
  const cuuint64_t pages = s.page > 0 ? std::numeric_limits<std::int32_t>::max() : static_cast<cuuint64_t>(s.batch);
  const cuuint64_t extents[] = {d, heads, static_cast<cuuint64_t>(page), pages};
  const cuuint64_t strides[] = {2 * d, 2 * d * heads, 2 * d * heads * static_cast<cuuint64_t>(page)};
  const cuuint32_t box[] = {64, 1, static_cast<cuuint32_t>(box_tokens), 1};
  return encode_tensor_map({CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, cache, extents, strides, box,
                            CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE});
}

inline Task task_of(const AttentionDecode& s, const AttentionPlan& plan, const DecodeBuffers& buffers, int keys) {
  const Partials to = partials(buffers.workspace, s, plan);
  Task t{};
  t.q = buffers.q;
  t.o = buffers.o;
  t.partial_output = to.output;
  t.partial_log_sum = to.log_sum;
  t.table = s.page > 0 ? buffers.page_table : nullptr;
  t.table_width = s.page > 0 ? static_cast<int>((s.context + s.page - 1) / s.page) : 0;
  t.page = s.page > 0 ? static_cast<int>(s.page) : std::numeric_limits<std::int32_t>::max();
  t.kv_heads = static_cast<int>(s.kv_heads);
  t.group = static_cast<int>(s.q_heads / s.kv_heads);
  t.first_key = s.window > 0 ? static_cast<int>(std::max<std::int64_t>(0, s.context - s.window)) : 0;
  t.context = static_cast<int>(s.context);
  t.splits = static_cast<int>(plan.splits);
  t.items = static_cast<int>(s.batch * s.kv_heads * plan.splits);
  t.box_tokens = std::min(t.page, keys);
  t.scale = static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(s.qk_dim)));
  return t;
}

template <class E, int kHeadDim, int kWarps, int kStages, int kCtasPerSm>
void launch_variant(const AttentionDecode& s, const AttentionPlan& plan, const DecodeBuffers& buffers,
                    cudaStream_t stream) {
  using C = TileLayout<kHeadDim, kWarps, kStages>;
  const auto kernel = attend<E, kHeadDim, kWarps, kStages, kCtasPerSm>;
  PLUMBLINE_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, C::kSharedBytes));
  const Task t = task_of(s, plan, buffers, C::kKeys);
  const CUtensorMap k = cache_map(buffers.k_pages, s, t.box_tokens), v = cache_map(buffers.v_pages, s, t.box_tokens);
  const int ctas = std::min(t.items, kCtasPerSm * sm_count());
  kernel<<<static_cast<unsigned>(ctas), C::kThreads, C::kSharedBytes, stream>>>(k, v, t);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

/// The first of the two launches.
void launch_split_attention(const AttentionDecode& shape, const AttentionPlan& plan, const DecodeBuffers& buffers,
                            cudaStream_t stream);

}  // namespace plumbline::decode
