// Planners of TensorRT-LLM's attention: prefill, decode over a paged cache, and latent (MLA) decode.
#pragma once

#include <cstddef>

#include "model/engine/tensor_path.hpp"
#include "model/stacks/common/plan_attention.hpp"

namespace plumbline {

namespace trtllm {
/// Its families, in the order in which provider.cpp declares them. `kPrefillMma`: prefill on mma.sync. `kSingle`: a CTA for
/// each query head. `kDecode8bit`: from 8-bit caches, where that is a kernel of its own. `kPrepare`: the pass before prefill
/// (rotation and cache append). `kCombine`: the merge of latent attention's splits. `kPrefill8bit`, `kPrepare8bit`: wgmma's prefill in 8 bits.
/// `kMlaMma`, `kMlaTriton`: latent decode on mma.sync. `kServedPrefill`: what a call of a prompt's kernel takes in a server of
/// another make, which hands its own launches on; that provider's alone.
enum Family : std::size_t {
  kPrefill,
  kPrefillMma,
  kDecode,
  kSingle,
  kDecode8bit,
  kMla,
  kPrepare,
  kCombine,
  kPrefill8bit,
  kPrepare8bit,
  kMla8bit,
  kMlaMma,
  kMlaTriton,
  kFamilies,
  kServedPrefill = kFamilies,
  kServedFamilies
};

/// wgmma and what came after it: persistent kernels with a producer warp; on Hopper two warpgroups of 64 query rows a CTA.
/// mma.sync: four warps of 16 rows, two CTAs an SM.
inline bool is_warp_specialised(const Rates& rates) { return rates.path.kind != TensorPath::Kind::mma_sync; }
/// The launch before decode: the new token's queries are rotated, and its keys and values join the cache.
Demand append_demand(const DecodeTask& task, DType dtype, const FamilyScalars& family);
/// Decode by the library's kernels for tcgen05: up to 16 query heads a KV head, whether they share it or not.
bool takes_tensor_memory(const AttentionDecode& shape, const Rates& rates);
/// Prompts by those kernels, as servers of another make call them: causal ones, of widths that there are kernels for.
bool serves_tensor_memory(const AttentionPrefill& shape, const Rates& rates);
/// Head widths that the kernels are compiled for; others are padded up (72 and 80 run as 128 does).
double compiled_width(std::int64_t width);
/// Cached keys that are worth a CTA of their own (decoderXQAConstants.h: kMinHistoryTokensPerBlock).
inline constexpr double kKeysPerBlock = 128;
/// As many parts as there are blocks of 128 keys, but no more than sqrt(8 blocks) ("otherwise the final reduction may
/// dominate"), and no more than 8 CTAs an SM. Of the whole cache, whatever a window hides. (computeMultiBlockCount().)
double grouped_splits(double blocks, double kv_sets, const Rates& rates);
/// Whether decode of grouped heads runs the kernel for wgmma: queries of 16 bits, an fp8 cache. It is taken however few CTAs
/// there are, as the plain kernel does not know such a cache. (supportConfigQGMMA() in decoderXQAImplJIT/kernelUtils.cpp;
/// DecoderXQARunner::shouldUse(): "MMHA does not support this combination".)
bool has_wgmma_decode(const AttentionDecode& shape, const Rates& rates);
/// A link of the grouped kernel (mha.cu) on sm_80, counted: 64 keys of each group of warps, 16 heads of 128, 16 bits. Its source
/// compiled, as SASS with the stalls that the compiler set and answers of shared memory.
inline constexpr double kCountedLink = 1460;
/// What a chain that was counted in that way takes on a card, by the scalars of the grouped kernel (an A100's rows: 1.18).
double beside_counted(std::span<const FamilyScalars> families);
/// The scalars that it is priced with: its own, or the grouped kernel's on mma.sync where it was not measured.
const FamilyScalars& wgmma_decode_family(std::span<const FamilyScalars> families);
/// The merge of so many parts of a head's keys in that kernel; nothing for one.
Seconds merge_of_parts(double parts, const Rates& rates, std::span<const FamilyScalars> families);
}  // namespace trtllm

/// `appends`: queries and keys are rotated and the cache is written by a launch before.
AttentionChoice plan_trtllm_prefill(const AttentionPrefill& shape, bool appends, const Rates& rates,
                                    std::span<const FamilyScalars> families);
/// The same kernel called by a server that rotates elsewhere and writes the cache by a launch of its own. (For tcgen05.)
AttentionChoice plan_served_prefill(const AttentionPrefill& shape, bool appends, const Rates& rates,
                                    std::span<const FamilyScalars> families);
AttentionChoice plan_served_decode(const AttentionDecode& shape, const Rates& rates,
                                   std::span<const FamilyScalars> families, const KeyCutting& how = {});
AttentionChoice plan_trtllm_decode(const AttentionDecode& shape, const Rates& rates,
                                   std::span<const FamilyScalars> families, const KeyCutting& how = {});
/// By the kernel of has_wgmma_decode().
AttentionChoice plan_trtllm_wgmma_decode(const AttentionDecode& shape, const Rates& rates,
                                         std::span<const FamilyScalars> families, const KeyCutting& how = {});
AttentionChoice plan_trtllm_tensor_memory_decode(const AttentionDecode& shape, const Rates& rates,
                                                 std::span<const FamilyScalars> families, const KeyCutting& how = {});
/// By the plain kernel, a CTA for each query head, whatever keys heads share.
AttentionChoice plan_trtllm_plain_decode(const AttentionDecode& shape, const Rates& rates,
                                         std::span<const FamilyScalars> families, const KeyCutting& how = {});
/// Latent decode whose CTAs take so many heads, and all keys of a sequence before they are cut.
DecodeTask latent_task(const MlaDecode& shape, double rows);
AttentionChoice plan_mla_decode(const MlaDecode& shape, const Rates& rates, std::span<const FamilyScalars> families,
                                const KeyCutting& how = {});
/// The same behind TensorRT-LLM's own launch, which rotates, appends and rounds, where the kernel is fitted apart from it.
AttentionChoice plan_mla_prepared(const MlaDecode& shape, const Rates& rates, std::span<const FamilyScalars> families,
                                  const KeyCutting& how = {});
/// By the library's kernels for tcgen05; `appends`: behind the launch that rotates, appends and rounds.
AttentionChoice plan_mla_tensor_memory(const MlaDecode& shape, bool appends, const Rates& rates,
                                       std::span<const FamilyScalars> families, const KeyCutting& how = {});
/// Where tensor units take mma.sync alone: TensorRT-LLM's and vLLM's.
AttentionChoice plan_mla_unsplit(const MlaDecode& shape, const Rates& rates, std::span<const FamilyScalars> families,
                                 const KeyCutting& how = {});
AttentionChoice plan_mla_triton(const MlaDecode& shape, const Rates& rates, std::span<const FamilyScalars> families,
                                const KeyCutting& how = {});

}  // namespace plumbline
