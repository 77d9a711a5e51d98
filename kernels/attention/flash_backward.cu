// Attention's backward pass for Hopper (sm_90a): its three launches.
#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/attention/attention.hpp"
#include "kernels/attention/flash_backward_sums.cuh"
#include "kernels/common/cuda_check.hpp"

namespace plumbline {
namespace flash {
namespace {

std::int64_t padded_queries(const AttentionBackward& s) { return (s.q_len + kSumTile - 1) / kSumTile * kSumTile; }
/// Of one of the two sums by query.
std::int64_t sums_of(const AttentionBackward& s) { return s.batch * s.q_heads * padded_queries(s); }

BackwardSums sums_task(const AttentionBackward& s, const BackwardBuffers& b) {
  BackwardSums t{};
  t.o = static_cast<const __nv_bfloat16*>(b.o);
  t.d_o = static_cast<const __nv_bfloat16*>(b.d_o);
  t.lse = b.lse;
  t.dq = static_cast<float*>(b.workspace);
  t.lse2 = t.dq + sums_of(s) * s.qk_dim;
  t.delta = t.lse2 + sums_of(s);
  t.dq_out = static_cast<__nv_bfloat16*>(b.dq);
  t.q_len = static_cast<int>(s.q_len);
  t.q_heads = static_cast<int>(s.q_heads);
  t.padded = static_cast<int>(padded_queries(s));
  t.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.qk_dim)));
  return t;
}

int sm_count() {
  int device = 0, count = 0;
  PLUMBLINE_CUDA_CHECK(cudaGetDevice(&device));
  PLUMBLINE_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

BackwardTask backward_task(const AttentionBackward& s, const BackwardBuffers& b, const BackwardSums& sums, int keys) {
  BackwardTask t{};
  t.lse2 = sums.lse2;
  t.delta = sums.delta;
  t.dq = sums.dq;
  t.dk = static_cast<__nv_bfloat16*>(b.dk);
  t.dv = static_cast<__nv_bfloat16*>(b.dv);
  t.q_len = sums.q_len;
  t.kv_len = static_cast<int>(s.kv_len);
  t.q_heads = sums.q_heads;
  t.kv_heads = static_cast<int>(s.kv_heads);
  t.group = t.q_heads / t.kv_heads;
  t.padded = sums.padded;
  t.key_blocks = (t.kv_len + keys - 1) / keys;
  const int heads = static_cast<int>(s.batch * s.kv_heads);
  // Two rounds of the card are enough to even out the end.
  t.whole_heads = s.causal ? std::max(0, heads - (2 * sm_count() + t.key_blocks - 1) / t.key_blocks) : heads;
  t.scale = sums.scale;
  t.scale2 = static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(s.qk_dim)));
  return t;
}

template <class T>
void launch_backward(const AttentionBackward& s, const BackwardBuffers& b, cudaStream_t stream) {
  const BackwardSums sums = sums_task(s, b);
  const BackwardTask task = backward_task(s, b, sums, T::kKeys);
  const auto heads = static_cast<unsigned>(s.batch * s.q_heads), padded = static_cast<unsigned>(sums.padded);
  const dim3 prepared(padded / kPrepareTile, heads), finished(padded / kSumTile, heads);
  const auto ctas = static_cast<unsigned>(task.key_blocks * s.kv_heads * s.batch);
  const CUtensorMap q = head_map(b.q, s.batch, s.q_len, s.q_heads, T::kHeadDim, T::kQueries);
  const CUtensorMap d_o = head_map(b.d_o, s.batch, s.q_len, s.q_heads, T::kHeadDim, T::kQueries);
  const CUtensorMap k = head_map(b.k, s.batch, s.kv_len, s.kv_heads, T::kHeadDim, T::kKeys);
  const CUtensorMap v = head_map(b.v, s.batch, s.kv_len, s.kv_heads, T::kHeadDim, T::kKeys);
  PLUMBLINE_CUDA_CHECK(cudaFuncSetAttribute(flash_backward<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(T::kSharedBytes)));
  prepare_backward<T::kHeadDim><<<prepared, kSumThreads, 0, stream>>>(sums);
  flash_backward<T><<<ctas, T::kThreads, T::kSharedBytes, stream>>>(q, k, v, d_o, task);
  finish_backward<T><<<finished, kSumThreads, 0, stream>>>(sums);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

template <class T>
bool launched_backward(const AttentionBackward& s, const AttentionPlan& plan, const BackwardBuffers& b,
                       cudaStream_t stream) {
  if (s.qk_dim != T::kHeadDim || s.causal != T::kCausal || plan.q_tile != T::kQueries || plan.kv_tile != T::kKeys) {
    return false;
  }
  launch_backward<T>(s, b, stream);
  return true;
}

void refuse_backward(const std::string& why) { throw NotModelled("own attention backward: " + why); }

void check_backward(const AttentionBackward& s) {
  if (s.window != 0) refuse_backward("no sliding window");
  if (s.dtype != DType::bf16) refuse_backward("bf16 only");
  if (s.qk_dim != s.v_dim) refuse_backward("Q and V must be equally wide");
  if (s.kv_heads < 1 || s.q_heads % s.kv_heads != 0) refuse_backward("query heads must be a multiple of KV heads");
  if (s.kv_len < 1 || (s.causal && s.kv_len < s.q_len)) refuse_backward("every query must see a key");
  // CTAs by the second dimension of a grid, and 32-bit counting inside
  constexpr std::int64_t kMostHeads = 65535, kMost = std::int64_t{1} << 24;
  if (s.batch * s.q_heads > kMostHeads || s.kv_len > kMost || s.q_len > kMost) refuse_backward("shape too large");
}

}  // namespace
}  // namespace flash

std::size_t backward_workspace_bytes(const AttentionBackward& s) {
  return static_cast<std::size_t>(flash::sums_of(s)) * static_cast<std::size_t>(s.qk_dim + 2) * sizeof(float);
}

void launch_attention_backward(const AttentionBackward& shape, const AttentionPlan& plan,
                               const BackwardBuffers& buffers, StreamHandle stream) {
  flash::check_backward(shape);
  if (shape.batch == 0 || shape.q_heads == 0 || shape.q_len == 0) return;
  using flash::BackwardTiling;
  const auto try_each = [&]<class... T>() {
    return (flash::launched_backward<T>(shape, plan, buffers, static_cast<cudaStream_t>(stream)) || ...);
  };
  // ops/plan/kernel_menu.cpp lists the same
  if (!try_each.template operator()<BackwardTiling<64, false>, BackwardTiling<64, true>, BackwardTiling<128, false>,
                                    BackwardTiling<128, true>>()) {
    flash::refuse_backward("no kernel for this head width or tile");
  }
}

}  // namespace plumbline
