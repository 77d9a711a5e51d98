// The portable flash attention forward's launcher. The kernel is in flash_portable.cuh.
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "kernels/attention/attention.hpp"
#include "kernels/attention/flash_portable.cuh"
#include "kernels/attention/flash_portable.hpp"
#include "kernels/common/cuda_check.hpp"

namespace plumbline {
namespace flash_portable {
namespace {

/// One compiled tiling: its part of the plan, and its kernel.
struct Variant {
  int head_dim, q_tile, kv_tile, stages, threads, shared_bytes, ctas_per_sm;
  void (*bf16)(Task);
  void (*fp16)(Task);
};

template <int kHeadDim, int kQTile, int kKvTile, int kStages, int kCtas>
Variant variant() {
  using B = Tiling<__nv_bfloat16, kHeadDim, kQTile, kKvTile, kStages, kCtas>;
  using H = Tiling<__half, kHeadDim, kQTile, kKvTile, kStages, kCtas>;
  return {kHeadDim,        kQTile, kKvTile,           kStages,          B::kThreads,
          B::kSharedBytes, kCtas,  flash_portable<B>, flash_portable<H>};
}

/// kPortablePrefill of ops/plan/kernel_menu.cpp, in its order.
const auto& variants() {
  static const std::array kVariants{variant<64, 128, 64, 2, 2>(), variant<64, 64, 64, 2, 4>(),
                                    variant<128, 128, 64, 1, 2>(), variant<128, 128, 64, 2, 2>(),
                                    variant<128, 64, 32, 2, 4>()};
  return kVariants;
}

const Variant* find(const AttentionPrefill& s, const AttentionPlan& p) {
  for (const Variant& v : variants()) {
    if (v.head_dim == s.qk_dim && v.q_tile == p.q_tile && v.kv_tile == p.kv_tile && v.stages == p.stages) return &v;
  }
  return nullptr;
}

std::int64_t tiles_of(const AttentionPrefill& s, const Variant& v) { return (s.q_len + v.q_tile - 1) / v.q_tile; }

}  // namespace
}  // namespace flash_portable

const char* flash_portable_refusal(const AttentionPrefill& s, const AttentionPlan& p) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() - 1024;  // room to round up
  if (s.window != 0) return "no sliding window";
  if (s.append == 1) return "does not rotate or append to the cache";
  if ((s.dtype != DType::bf16 && s.dtype != DType::fp16) || s.kv_dtype != s.dtype) return "bf16 or fp16 only";
  if (s.qk_dim != s.v_dim) return "Q and V must be equally wide";
  if (s.kv_heads < 1 || s.q_heads % s.kv_heads != 0) return "query heads must be a multiple of KV heads";
  if (s.kv_len < 1 || (s.causal && s.kv_len < s.q_len)) return "every query must see a key";
  if (p.splits != 1 || p.packed_heads != 1) return "neither splits keys nor packs heads";
  const flash_portable::Variant* v = flash_portable::find(s, p);
  if (v == nullptr) return "no kernel for this head width or tile";
  if (s.kv_len > kMost || s.q_len > kMost || s.batch * s.q_heads > kMost) return "shape too large";
  if (s.batch * s.q_heads * flash_portable::tiles_of(s, *v) > kMost) return "more tiles than a grid holds";
  return nullptr;
}

void launch_flash_portable(const AttentionPrefill& s, const AttentionPlan& p, const PrefillBuffers& b,
                           StreamHandle handle) {
  if (const char* refusal = flash_portable_refusal(s, p)) {
    throw NotModelled(std::string("own flash attention (mma.sync): ") + refusal);
  }
  if (b.lse != nullptr) throw NotModelled("own flash attention (mma.sync): no statistics for a backward pass");
  if (s.batch == 0 || s.q_heads == 0 || s.q_len == 0) return;
  const flash_portable::Variant& v = *flash_portable::find(s, p);
  flash_portable::Task t{};
  t.q = b.q;
  t.k = b.k;
  t.v = b.v;
  t.o = b.o;
  t.q_len = static_cast<int>(s.q_len);
  t.kv_len = static_cast<int>(s.kv_len);
  t.q_heads = static_cast<int>(s.q_heads);
  t.kv_heads = static_cast<int>(s.kv_heads);
  t.group = static_cast<int>(s.q_heads / s.kv_heads);
  t.tiles = static_cast<int>(flash_portable::tiles_of(s, v));
  t.heads = static_cast<int>(s.batch * s.q_heads);
  t.causal = s.causal;
  t.scale = static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(s.qk_dim)));
  void (*kernel)(flash_portable::Task) = s.dtype == DType::fp16 ? v.fp16 : v.bf16;
  PLUMBLINE_CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                            cudaFuncAttributeMaxDynamicSharedMemorySize, v.shared_bytes));
  kernel<<<static_cast<unsigned>(t.tiles * t.heads), static_cast<unsigned>(v.threads),
           static_cast<std::size_t>(v.shared_bytes), static_cast<cudaStream_t>(handle)>>>(t);
  PLUMBLINE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace plumbline
