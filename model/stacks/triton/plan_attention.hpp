// Planners of SGLang's attention written in Triton (--attention-backend triton).
#pragma once

#include <cstddef>

#include "model/stacks/common/plan_attention.hpp"

namespace plumbline {

namespace triton {
/// Its families, in the order in which provider.cpp declares them.
enum Family : std::size_t { kPrefill, kDecode, kCombine, kCacheWrite, kFamilies };

/// Parts that the keys of each sequence are cut into: at most eight, as many as the SMs have CTAs for, of which long
/// sequences are given more. (sglang/srt/layers/attention/triton_ops/metadata.py, get_num_kv_splits_triton();
/// --triton-attention-num-kv-splits: 8.)
double parts_of(double ctas, double context, double sm_count);
}  // namespace triton

/// `appends`: new keys and values go to the cache by a launch of their own.
AttentionChoice plan_triton_prefill(const AttentionPrefill& shape, bool appends, const Rates& rates,
                                    std::span<const FamilyScalars> families);
AttentionChoice plan_triton_decode(const AttentionDecode& shape, const Rates& rates,
                                   std::span<const FamilyScalars> families, const KeyCutting& how = {});

}  // namespace plumbline
