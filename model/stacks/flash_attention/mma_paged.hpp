// How FlashAttention-2 cuts attention over a cache in pages, as vLLM's copy of it does (csrc/flash_attn/flash_api.cpp,
// flash_fwd_launch_template.h).
#pragma once

#include <cstddef>

#include "model/stacks/common/plan_attention.hpp"

namespace plumbline {

namespace flash_attention {

/// Families, by number, of such launches: the kernel where SMs hold two of its CTAs, and where they hold one; the write of new
/// keys and values to the cache; copies of queries and results from one layout to another, and as they lie;
/// the merge of parts.
struct MmaPagedFamilies {
  std::size_t two_on_sm, one_on_sm, write, transpose, copy, merge;
};

/// Keys of a block, by the width of heads as compiled.
double mma_paged_keys(double width);
/// CTAs that an SM holds.
double mma_paged_ctas(double width, double element_bytes, const Rates& rates);
/// Whether prompts are priced as that kernel: everywhere but where SMs hold one of its CTAs and there are more of them than SMs.
/// Rows of an RTX A6000 take no second turn there (992 tokens of 16 heads 96 us, where turns of single CTAs say 116), for a
/// reason that nobody knows; the plan of keys in one piece is nearer.
bool prices_mma_paged(const AttentionPrefill& shape, const Rates& rates);
/// Parts that the keys of decode are cut into: the fewest that fill two CTAs an SM within 0.85 of the best number
/// (num_splits_heuristic()).
double mma_paged_parts(double tiles, double blocks, double sm_count);

}  // namespace flash_attention

/// A prompt of one token is decode (max_seqlen_q == 1). `appends`: a launch before writes new keys and values to the cache.
AttentionChoice plan_mma_paged_prefill(const AttentionPrefill& shape, bool appends, const Rates& rates,
                                       std::span<const FamilyScalars> families,
                                       const flash_attention::MmaPagedFamilies& names);
AttentionChoice plan_mma_paged_decode(const AttentionDecode& shape, bool appends, const Rates& rates,
                                      std::span<const FamilyScalars> families, const KeyCutting& how,
                                      const flash_attention::MmaPagedFamilies& names);

}  // namespace plumbline
