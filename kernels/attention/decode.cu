// Paged decode attention with split keys (flash-decoding), bf16 or fp16, one new token a sequence.
//
// A work item is one split of one KV head of one sequence: its packed query heads (up to 16, the rows of mma.sync
// m16n8k16) against its tiles of 64 keys. Persistent CTAs, two an SM (one with a head width of 256), take items in
// turn. A producer warp fills a ring of K and V tiles by tensor-map loads, one box for each page (or 64 tokens) and 64
// columns. It reads page numbers 32 at a time ahead of use, and runs on into the next item. Each of four consumer warps
// has 16 keys of a tile and a softmax of its own, so that nothing but the ring orders them. Behind an item they merge
// their rows in one stage of the ring and write o, or with splits > 1 the partial o and its log2-sum-exp for
// decode_combine.cu. Keys behind the context are masked and their V is cleared, because a page may hold anything there.
// Variants, a sweep of splits and what bounds an item: docs/lab/decode.md.
#include <cuda.h>
#include <cuda_runtime.h>

#include <limits>
#include <string>

#include "kernels/attention/attention.hpp"
#include "kernels/attention/decode.cuh"
#include "kernels/attention/decode_kernel.cuh"
#include "kernels/attention/decode_launch.cuh"
#include "kernels/common/cuda_check.hpp"
#include "ops/plan/kernel_menu.hpp"

namespace plumbline {
namespace decode {
namespace {

std::string in_words(const AttentionDecode& s) {
  return "attention_decode: Hq=" + std::to_string(s.q_heads) + ", Hkv=" + std::to_string(s.kv_heads) +
         ", D=" + std::to_string(s.qk_dim) + ", page=" + std::to_string(s.page);
}

/// Why there is no kernel for the shape, or null.
const char* refusal(const AttentionDecode& s, const AttentionPlan& plan) {
  if ((s.dtype != DType::bf16 && s.dtype != DType::fp16) || s.kv_dtype != s.dtype)
    return "only bf16 and fp16 have a kernel";
  if (s.qk_dim != s.v_dim) return "keys and values must be of one width";
  if (s.batch < 1 || s.context < 1 || s.kv_heads < 1 || s.q_heads % s.kv_heads != 0) return "not a shape";
  const DecodeVariant* v = own_decode_variant(s.qk_dim, s.q_heads / s.kv_heads);
  if (v == nullptr) return "no kernel for this head width and group";
  if (s.page != 0 && (s.page < 16 || (s.page % v->kv_tile != 0 && v->kv_tile % s.page != 0)))
    return "pages of 16, 32 or a multiple of 64 tokens have a kernel";
  if (s.context > std::numeric_limits<std::int32_t>::max() / 2) return "the context is too long";
  if (plan.kv_tile != v->kv_tile) return "the plan's keys a step are not the kernel's";
  if (plan.splits < 1 || s.batch * s.kv_heads * plan.splits > std::numeric_limits<std::int32_t>::max())
    return "the plan's splits are out of range";
  return nullptr;
}

}  // namespace

Partials partials(void* workspace, const AttentionDecode& shape, const AttentionPlan& plan) {
  auto* output = static_cast<float*>(workspace);
  return {output, output + shape.batch * shape.q_heads * plan.splits * shape.v_dim};
}

void launch_split_attention(const AttentionDecode& s, const AttentionPlan& plan, const DecodeBuffers& buffers,
                            cudaStream_t stream) {
  if (const char* why = refusal(s, plan)) throw NotModelled(in_words(s) + ": " + why);
  const auto launch = [&]<class E>(E /*unused*/) {
    if (s.qk_dim == 64) return launch_variant<E, 64, 4, 6, 2>(s, plan, buffers, stream);
    if (s.qk_dim == 128) return launch_variant<E, 128, 4, 3, 2>(s, plan, buffers, stream);
    launch_variant<E, 256, 4, 3, 1>(s, plan, buffers, stream);
  };
  if (s.dtype == DType::fp16) launch(__half{});
  else launch(__nv_bfloat16{});
}

}  // namespace decode

std::size_t decode_workspace_bytes(const AttentionDecode& shape, const AttentionPlan& plan) {
  if (plan.splits <= 1) return 0;
  return static_cast<std::size_t>(shape.batch * shape.q_heads * plan.splits * (shape.v_dim + 1)) * sizeof(float);
}

void launch_attention_decode(const AttentionDecode& shape, const AttentionPlan& plan, const DecodeBuffers& buffers,
                             StreamHandle stream) {
  auto* const on = static_cast<cudaStream_t>(stream);
  decode::launch_split_attention(shape, plan, buffers, on);
  if (plan.splits > 1) decode::launch_combine(shape, plan, buffers.workspace, buffers.o, on, true);
}

}  // namespace plumbline
