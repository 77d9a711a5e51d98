// Flash attention forward for Hopper (sm_90a).
#include "kernels/attention/flash_prefill.cuh"

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include "kernels/attention/attention.hpp"
#include "kernels/attention/flash_portable.hpp"
#include "kernels/common/cuda_check.hpp"
#include "kernels/common/tensor_map.cuh"

namespace plumbline {
namespace flash {
namespace {

int device_attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  PLUMBLINE_CUDA_CHECK(cudaGetDevice(&device));
  PLUMBLINE_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

template <class T>
Task task_of(const AttentionPrefill& shape, const PrefillBuffers& b, int ctas) {
  Task t{};
  t.o = b.o;
  t.lse = b.lse;
  t.q_len = static_cast<int>(shape.q_len);
  t.kv_len = static_cast<int>(shape.kv_len);
  t.q_heads = static_cast<int>(shape.q_heads);
  t.group = static_cast<int>(shape.q_heads / shape.kv_heads);
  t.heads = static_cast<int>(shape.batch * shape.q_heads);
  t.tiles = (t.q_len + T::kQTile - 1) / T::kQTile;
  t.items = t.tiles * t.heads;
  if (T::kCausal) {
    // Two rounds of the card are enough to even out the end.
    t.pairs = (t.tiles + 1) / 2;
    t.paired_heads = std::max(0, t.heads - (2 * ctas + t.pairs - 1) / t.pairs);
    t.items = t.paired_heads * t.pairs + (t.heads - t.paired_heads) * t.tiles;
  }
  t.scale = static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(T::kHeadDim)));
  return t;
}

template <class T>
void launch(const AttentionPrefill& shape, const PrefillBuffers& b, cudaStream_t stream) {
  const int sms = device_attribute(cudaDevAttrMultiProcessorCount);
  const Task task = task_of<T>(shape, b, sms);
  const CUtensorMap q = head_map(b.q, shape.batch, shape.q_len, shape.q_heads, T::kHeadDim, T::kQTile);
  const CUtensorMap k = head_map(b.k, shape.batch, shape.kv_len, shape.kv_heads, T::kHeadDim, T::kKvTile);
  const CUtensorMap v = head_map(b.v, shape.batch, shape.kv_len, shape.kv_heads, T::kHeadDim, T::kKvTile);
  PLUMBLINE_CUDA_CHECK(cudaFuncSetAttribute(flash_prefill<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(T::kSharedBytes)));
  const int ctas = std::min(task.items, sms);
  flash_prefill<T><<<ctas, T::kThreads, T::kSharedBytes, stream>>>(q, k, v, task);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

/// Launches this tiling if it is the plan's and the shape's.
template <class T>
bool launched(const AttentionPrefill& shape, const AttentionPlan& plan, const PrefillBuffers& b, cudaStream_t stream) {
  if (shape.qk_dim != T::kHeadDim || shape.causal != T::kCausal || plan.q_tile != T::kQTile ||
      plan.kv_tile != T::kKvTile || (shape.dtype == DType::fp16) != std::is_same_v<typename T::E, __half> ||
      (b.lse != nullptr) != T::kStatistics) {
    return false;
  }
  launch<T>(shape, b, stream);
  return true;
}

void refuse(const std::string& why) { throw NotModelled("own flash attention: " + why); }

void check_shape(const AttentionPrefill& s, const AttentionPlan& plan) {
  if (s.window != 0) refuse("no sliding window");
  if (s.append == 1) refuse("does not rotate or append to the cache");
  if ((s.dtype != DType::bf16 && s.dtype != DType::fp16) || s.kv_dtype != s.dtype) refuse("bf16 or fp16 only");
  if (s.qk_dim != s.v_dim) refuse("Q and V must be equally wide");
  if (s.kv_heads < 1 || s.q_heads % s.kv_heads != 0) refuse("query heads must be a multiple of KV heads");
  if (s.kv_len < 1 || (s.causal && s.kv_len < s.q_len)) refuse("every query must see a key");
  if (plan.splits != 1 || plan.packed_heads != 1) refuse("neither splits keys nor packs heads");
  // 32-bit counting inside; far beyond what a card's memory holds.
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (s.kv_len > kMost || s.batch * s.q_heads > kMost || s.batch * s.q_heads * (s.q_len / 64 + 1) > kMost) {
    refuse("shape too large");
  }
}

}  // namespace
}  // namespace flash

void launch_attention_prefill(const AttentionPrefill& shape, const AttentionPlan& plan, const PrefillBuffers& buffers,
                              StreamHandle stream) {
  if (plan.stages > 0) return launch_flash_portable(shape, plan, buffers, stream);
  flash::check_shape(shape, plan);
  if (shape.batch == 0 || shape.q_heads == 0 || shape.q_len == 0) return;
  using flash::Tiling;
  const auto try_each = [&]<class... T>() {
    return (flash::launched<T>(shape, plan, buffers, static_cast<cudaStream_t>(stream)) || ...);
  };
  // ops/plan/kernel_menu.cpp lists the same
  if (!try_each.template operator()<Tiling<64, 3, 128, false>, Tiling<64, 3, 128, true>, Tiling<128, 2, 128, false>,
                                    Tiling<128, 2, 128, true>, Tiling<256, 2, 80, false>, Tiling<256, 2, 80, true>,
                                    Tiling<64, 3, 128, false, false, __half>, Tiling<64, 3, 128, true, false, __half>,
                                    Tiling<128, 2, 128, false, false, __half>, Tiling<128, 2, 128, true, false, __half>,
                                    Tiling<256, 2, 80, false, false, __half>, Tiling<256, 2, 80, true, false, __half>,
                                    Tiling<64, 3, 128, false, true>, Tiling<64, 3, 128, true, true>,
                                    Tiling<128, 2, 128, false, true>, Tiling<128, 2, 128, true, true>>()) {
    flash::refuse("no kernel for this head width or tile");
  }
}

}  // namespace plumbline
