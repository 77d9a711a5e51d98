// Launchers of our attention kernels, in plain C++; the rules of launch.hpp. bf16, softmax scale 1/sqrt(D).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/common/launch.hpp"
#include "ops/plan/plans.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// q, o [B, S, Hq, D]; k, v [B, Skv, Hkv, D].
struct PrefillBuffers {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* o = nullptr;
  float* lse =
      nullptr;  ///< [B, Hq, S] natural logarithms of the softmax's sums, if a backward pass follows (D 64, 128)
};
void launch_attention_prefill(const AttentionPrefill& shape, const AttentionPlan& plan, const PrefillBuffers& buffers,
                              StreamHandle stream);

/// q, o, d_o, dq [B, S, Hq, D]; k, v, dk, dv [B, Skv, Hkv, D]; lse [B, Hq, S] as the forward pass wrote it.
struct BackwardBuffers {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* o = nullptr;
  const void* d_o = nullptr;
  const float* lse = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  void* workspace = nullptr;  ///< backward_workspace_bytes(): dQ's fp32 sums and two fp32 sums a query
};
std::size_t backward_workspace_bytes(const AttentionBackward& shape);
/// Three launches: sums by query, the five products, dQ from fp32 sums to bf16. The sums of dQ are added in an order that
/// differs between runs. D 64 or 128, sm_90a.
void launch_attention_backward(const AttentionBackward& shape, const AttentionPlan& plan,
                               const BackwardBuffers& buffers, StreamHandle stream);

/// q, o [B, Hq, D]; k_pages, v_pages [pages, page, Hkv, D]; page_table [B, ceil(S / page)]; page 0 in the shape means a
/// contiguous cache [B, S, Hkv, D] and no table.
struct DecodeBuffers {
  const void* q = nullptr;
  const void* k_pages = nullptr;
  const void* v_pages = nullptr;
  const std::int32_t* page_table = nullptr;
  void* o = nullptr;
  void* workspace = nullptr;  ///< decode_workspace_bytes(): partial outputs and log-sum-exps, fp32
};
std::size_t decode_workspace_bytes(const AttentionDecode& shape, const AttentionPlan& plan);
/// The plan's launches: split-KV attention, and with splits > 1 the combination behind it.
void launch_attention_decode(const AttentionDecode& shape, const AttentionPlan& plan, const DecodeBuffers& buffers,
                             StreamHandle stream);

}  // namespace plumbline
