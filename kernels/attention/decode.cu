// Paged decode attention with split keys (flash-decoding), bf16, one new token a sequence.
//
// A work item is one split of one KV head of one sequence: its packed query heads (up to 16, the rows of mma.sync
// m16n8k16) against its tiles of 64 keys. Persistent CTAs, two an SM (head width 256: one), take items in turn. A
// producer warp keeps a ring of K and V tiles filled by tensor-map loads, one box a page (or 64 tokens) and 64 columns,
// page numbers read 32 at a time ahead of use, and runs on into the next item. Four consumer warps have 16 keys of a
// tile each and a softmax of their own, so that nothing but the ring orders them; behind an item they merge their rows
// in one stage of the ring, and write o, or with splits > 1 the partial o and its log2-sum-exp for decode_combine.cu.
// Keys behind the context are masked, and their V cleared: a page may hold anything there.
//
// Variants, H200 (132 SMs, 4.8 TB/s), 2026-11-20, K and V read per second of attention + combination back to back in a
// graph (about 1 us of launch gap included), cold L2, pages scattered over 1.25 times their number, Hq 32, Hkv 8, D
// 128:
//                                                        B=64 S=8192   B=8 S=8192    B=4 S=4000
//                                                        2147 MB       268 MB        66 MB        (best splits)
//   one item a CTA, barriers set up by all, late loads   4.22 TB/s     3.79          2.89
//   + first loads before anybody else is ready           4.22          3.94          3.05
//   persistent CTAs                                      4.21          3.87          2.98
//   + evict-first, no L2 promotion of the tensor map     4.41          4.02          3.07         <- this
// Persistent CTAs alone win nothing at the best splits, but other splits no longer lose (268 MB in 16 splits: 3.54
// before, 3.78 then), and so do numbers of items that do not fill the SMs evenly.
// L2 promotion and eviction priority are worth more than all else (persistent, 2147 MB): promotion 256 B without a hint
// 4.21; 256 B and evict-first 4.15; 256 B and an explicit evict-normal 3.55; 128 B and evict-normal 3.91; none and
// evict-first 4.35 (one KV head, contiguous: 4.51).
// Rings, evict-first (2147 / 268 MB): 64 keys x 3 stages x 2 CTAs 4.36 / 4.02 <- this; 128 x 3 x 1 4.30 / 3.99; 32 x 3
// x 4 4.41 / 4.02, but slow with few CTAs (3.23 at two splits, 48 KB in flight); 64 x 2 x 3 3.82 / 3.70. Width 64: 6
// stages x 2 CTAs; 4 x 3 is no better. Width 256 (1074 MB): 64 keys x 3 x 1 4.30; 32 x 3 x 2 4.33. Items in the order
// of splits instead of heads: no difference.
//
// One lane asking for all boxes of a tile in turn, not a lane each: pages of 16 tokens 15 % slower, of 64 the same.
// Later sessions of the same day read up to 4.53 / 4.18 / 3.14 TB/s with the same kernel.
//
// Sweep over 152 shapes and 1 to 128 splits: of the 89 from 200 MB on, 87 reach 82 % of 4.8 TB/s at their best splits
// (the others 81 %), the largest 97 %. PyTorch 2.11 on contiguous caches, the same way: cuDNN 4.53 / 3.85 / 2.83 TB/s,
// FlashAttention 2.73 / 3.28 / 2.34.
// What bounds an item: a CTA alone on its SM takes 54 GB/s (0.6 us a tile: presumably its chain of ldmatrix, mma and
// softmax), 34 GB/s with pages of 16 tokens (presumably the issue of 16 boxes a tile), an SM with two CTAs at least
// 52 GB/s even so. A planner's rule that comes within 2 % (geometric mean, worst 14 %) of the best splits takes those
// with the smallest
//   max(KV bytes / 4.4 TB/s, ceil(items / SMs) * item bytes / rate) + (1.2 us + 0.05 us * splits + partials if split)
// where items = B * Hkv * splits, rate = 54 (34) GB/s for one item on the busiest SM (width 64: 3/4 of it), 66 GB/s for
// more, partials = the write and read of B * Hq * splits * D * 4 bytes at 3 TB/s. In short: as many splits as give each
// SM one item, none once there are about 0.7 items an SM.
#include <cuda.h>
#include <cuda_bf16.h>
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
  if (s.dtype != DType::bf16 || s.kv_dtype != DType::bf16) return "only bf16 has a kernel";
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
  if (s.qk_dim == 64) return launch_variant<64, 4, 6, 2>(s, plan, buffers, stream);
  if (s.qk_dim == 128) return launch_variant<128, 4, 3, 2>(s, plan, buffers, stream);
  launch_variant<256, 4, 3, 1>(s, plan, buffers, stream);
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
