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
};
void launch_attention_prefill(const AttentionPrefill& shape, const AttentionPlan& plan, const PrefillBuffers& buffers,
                              StreamHandle stream);

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
